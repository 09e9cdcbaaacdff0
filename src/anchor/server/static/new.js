// A new search: limits chosen on the periodic table.
import { el, fill, mayChange, part, post, problem, title } from './common.js'

// A click goes round. Once an element is allowed, those that are neither allowed nor required are not used.
const NEXT = { free: 'allowed', allowed: 'required', required: 'excluded', excluded: 'free' }
const NUMBERS = ['structures', 'max_atoms', 'seed', 'finds', 'verify']

fill(async ({ searchable, sources }) => {
  const chosen = new Map(), cells = new Map()
  const words = el('p', { id: 'words' }), failed = el('div')
  const of = (kind) => [...chosen].filter(([, value]) => value === kind).map(([symbol]) => symbol)

  function choose(symbol) {
    chosen.set(symbol, NEXT[chosen.get(symbol) ?? 'free'])
    paint()
  }

  function paint() {
    for (const [symbol, cell] of cells) {
      const kind = chosen.get(symbol) ?? 'free'
      cell.className = kind
      cell.setAttribute('aria-label', `${symbol}: ${kind}`)
    }
    const [allowed, required, excluded] = ['allowed', 'required', 'excluded'].map(of)
    words.textContent = [
      allowed.length ? `only ${[...required, ...allowed].join(', ')}` : 'all elements',
      required.length ? `always with ${required.join(' and ')}` : '', excluded.length ? `without ${excluded.join(', ')}` : '',
    ].filter(Boolean).join('; ')
  }

  const grid = el('div', { class: 'ptable choice' })
  for (const { symbol, row, column } of anchor.places()) {
    const cell = el('button', { type: 'button', style: `grid-row:${row};grid-column:${column}`, 'data-element': symbol, disabled: !searchable.includes(symbol), onclick: () => choose(symbol) }, symbol)
    cells.set(symbol, cell)
    grid.append(cell)
  }
  const clear = el('button', { type: 'button', onclick: () => (chosen.clear(), paint()) }, 'clear')

  const input = (name, label, value, properties = {}) => el('label', { class: 'over' }, label, el('input', { name, value, ...properties }))
  const whole = (name, label, value, min, max) => input(name, label, value, { type: 'number', min, max, required: true })
  const sizes = [2, 3, 4].map((n) => el('label', {}, el('input', { type: 'checkbox', name: 'k', value: n, checked: true }), ` ${n}`))
  async function start(event) {
    event.preventDefault()
    const data = new FormData(form), [allowed, required] = ['allowed', 'required'].map(of)
    const wish = {
      name: data.get('name'), source: data.get('source') || null, k: data.getAll('k').map(Number),
      elements: allowed.length ? [...required, ...allowed] : [], must_contain: required, exclude: of('excluded'),
      ...Object.fromEntries(NUMBERS.map((name) => [name, Number(data.get(name))])),
    }
    try {
      const { key } = await post('/api/searches', wish)
      location.href = `/campaign/${part(key)}`
    } catch (error) {
      failed.replaceChildren(problem(error))
    }
  }
  const form = el('form', { onsubmit: start },
    el('div', { class: 'row low' },
      input('name', 'name (a folder below runs)', '', { type: 'text', pattern: '[A-Za-z0-9_\\-]*', placeholder: 'date and time', maxlength: 60 }),
      whole('structures', 'structures', 500, 1, 1000000), whole('max_atoms', 'most atoms per cell', 20, 2, 20),
      el('fieldset', { style: 'border: 0; padding: 0; margin: 0' }, el('legend', { class: 'note', style: 'padding: 0' }, 'numbers of elements'), el('span', { class: 'row' }, ...sizes)),
      el('label', { class: 'over' }, 'proposed by', el('select', { name: 'source' }, el('option', { value: '' }, 'as anchor search does'), ...Object.entries(sources).map(([value, text]) => el('option', { value }, text)))),
      whole('finds', 'finds to relax', 20, 0, 1000), whole('verify', 'finds to attack', 12, 0, 1000), whole('seed', 'seed', 0, 0, 2147483648)),
    el('p', { class: 'row' }, el('button', { class: 'main', disabled: !mayChange() }, 'Start the search'),
      mayChange() ? '' : el('span', { class: 'warn' }, 'read only: open the address with the token that anchor serve printed')))
  paint()
  return [
    title('New search'),
    el('section', {}, el('p', { class: 'note' }, 'Click an element: once to use only chosen ones, twice to require it, three times to exclude it.'),
      el('div', { class: 'scroll' }, grid), el('div', { class: 'row' }, words, clear)),
    el('section', {}, form, failed),
  ]
})
