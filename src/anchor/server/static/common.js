// What every page shares: questions to the server, errors, and the report's own pieces (`anchor`).

const A = window.anchor
const TOKEN = 'anchor-token'

export const { el, formula, energy, count } = A
export const main = document.getElementById('main')
if (document.body.dataset.viewer === 'yes') A.viewerUrl = '/static/viewer/crystal-view.js'
A.recallTheme()
document.getElementById('theme').addEventListener('click', () => A.setTheme(A.isDark() ? 'light' : 'dark'))

// The address that `anchor serve` prints ends in #token=…: it is kept for this origin and taken off the address.
function takeToken() {
  const found = /^#token=([A-Za-z0-9_-]+)$/.exec(location.hash)
  if (!found) return
  localStorage.setItem(TOKEN, found[1])
  history.replaceState(null, '', location.pathname + location.search)
}
takeToken()
window.addEventListener('hashchange', takeToken)

export const mayChange = () => localStorage.getItem(TOKEN) !== null
export const number = (value, digits = 2) => (value === null || value === undefined ? '–' : value.toFixed(digits))
export const keyOfPage = () => decodeURIComponent(location.pathname.split('/').at(-1))
export const part = (text) => encodeURIComponent(text)

export async function get(path, parameters = {}) {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== '' && one !== null && one !== undefined) query.append(name, one)
  }
  return answer(await fetch(query.size ? `${path}?${query}` : path))
}

export async function post(path, body) {
  const headers = { 'Content-Type': 'application/json', 'X-Anchor-Token': localStorage.getItem(TOKEN) ?? '' }
  return answer(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body ?? null) }))
}

async function answer(response) {
  const content = await response.json().catch(() => ({ error: `the server failed (${response.status})`, hint: 'what it printed says more' }))
  if (!response.ok) throw new Error([content.error, content.hint].filter(Boolean).join('\n'))
  return content
}

export function problem(error) {
  const [first, ...rest] = String(error.message ?? error).split('\n')
  return el('div', { class: 'error', role: 'alert' }, el('b', {}, first), rest.length ? el('div', {}, rest.join('\n')) : '')
}

// Fills the page, or says why it cannot.
export async function fill(make) {
  try {
    const known = await get('/api/elements')
    A.elements = known.table
    main.replaceChildren(...[await make(known)].flat(3))
  } catch (error) {
    main.replaceChildren(problem(error))
  }
}

export function title(text) {
  document.title = `${text} · anchor`
  return el('h1', {}, text)
}

export const box = (id, words, note = '') => el('section', {}, el('h2', {}, words), el('div', { id }), note ? el('p', { class: 'note' }, note) : '')

// The card of a crystal, which `base` (an address of the interface) answers with.
export async function openCard(base) {
  const dialog = el('dialog', { class: 'card', onclose: () => dialog.remove(), onclick: (event) => event.target === dialog && dialog.close() })
  const shut = el('button', { type: 'button', onclick: () => dialog.close(), 'aria-label': 'Close' }, '✕')
  dialog.append(el('header', {}, el('p', { class: 'note' }, 'loading …'), shut))
  document.body.append(dialog)
  dialog.showModal()
  try {
    const data = await get(base)
    if (dialog.isConnected) A.card(dialog, data.entry, data, [shut])
  } catch (error) {
    dialog.replaceChildren(el('header', {}, el('span', {}), shut), problem(error))
  }
}
