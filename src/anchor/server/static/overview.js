// Everything in the folder.
import { count, el, fill, get, part, title } from './common.js'

const about = (found) => (found.about ? el('div', { class: 'note' }, found.about) : '')

function campaign(found) {
  const link = el('a', { href: `/campaign/${part(found.key)}` }, found.name)
  if (found.problem) return el('tr', {}, el('td'), el('td', {}, link), el('td', { colspan: 5, class: 'note' }, found.problem))
  return el('tr', {},
    el('td', {}, el('input', { type: 'checkbox', name: 'compare', value: found.key, 'aria-label': `compare ${found.name}` })),
    el('td', {}, link, about(found), found.running ? el('span', {}, ' ', el('span', { class: 'chip find' }, 'running')) : ''),
    el('td', { class: 'n' }, `${count(found.structures)} of ${count(found.budget)}`),
    el('td', { class: 'n' }, count(found.refined)),
    el('td', { class: 'optional' }, found.source),
    el('td', { class: 'optional' }, found.potential),
    el('td', { class: 'optional note' }, found.limits))
}

const list = (name, found, path) => (found.length
  ? [el('section', {}, el('h2', {}, name), el('ul', {}, ...found.map((one) => el('li', {}, el('a', { href: `/${path}/${part(one.key)}` }, one.name), about(one)))))]
  : [])

fill(async () => {
  const folder = await get('/api/folder')
  const compare = () => {
    const chosen = [...document.querySelectorAll('input[name=compare]:checked')].map((one) => `key=${part(one.value)}`)
    if (chosen.length) location.href = `/compare?${chosen.join('&')}`
  }
  const heads = ['', 'campaign', 'structures', 'refined', 'proposed by', 'potential', 'limits']
  const head = heads.map((text, i) => el('th', { class: [i === 2 || i === 3 ? 'n' : '', i > 3 ? 'optional' : ''].join(' ') }, text))
  const table = el('div', { class: 'scroll' }, el('table', { class: 'list' }, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...folder.campaigns.map(campaign))))
  const buttons = el('p', { class: 'row' }, el('button', { type: 'button', onclick: compare }, 'compare the chosen'), el('a', { class: 'button', href: '/new' }, 'new search'))
  const empty = el('p', {}, 'No campaign is here yet. ', el('a', { href: '/new' }, 'Start a search'), ', or look at the ', el('a', { href: '/catalogue' }, 'catalogue'), '.')
  const { catalogue } = folder
  return [
    title(folder.name),
    el('section', {}, el('h2', {}, 'Campaigns'),
      ...folder.starting.map(({ key }) => el('p', {}, el('a', { href: `/campaign/${part(key)}` }, key.replaceAll('~', '/')), ' is starting')),
      ...(folder.campaigns.length ? [table, buttons] : [empty])),
    list('Evaluations', folder.evaluations, 'evaluation'),
    list('Studies', folder.studies, 'study'),
    catalogue ? [el('section', {}, el('h2', {}, 'Catalogue'), el('p', {}, el('a', { href: '/catalogue' }, `${count(catalogue.entries)} crystals`),
      ` that ship with anchor, ${count(catalogue.stable_with_finds)} of them on the hull with all entries on it`))] : [],
  ]
})
