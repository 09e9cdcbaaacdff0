// A long list: the server filters, sorts and cuts it; the address keeps what was chosen.
import { count, el, energy, formula, get, number, openCard, problem } from './common.js'

const ABOVE = 'energy_above_hull_ev_per_atom'
const WITH_FINDS = 'energy_above_hull_with_finds_ev_per_atom'
const SIZE = 50
const COLUMNS = [
  { name: 'id', head: 'no.', show: (row) => String(row.id), n: true },
  { name: 'formula', head: 'formula', show: (row) => formula(row.formula) },
  { name: ABOVE, head: 'eV/atom above hull', show: (row) => energy(row[ABOVE]), n: true },
  { name: WITH_FINDS, head: 'with finds', show: (row) => energy(row[WITH_FINDS]), n: true, found: true, optional: true },
  { name: 'level', head: 'level', show: (row) => String(row.level ?? '–'), n: true, found: true },
  { name: '', head: 'space group', show: (row) => anchor.group(row.spacegroup), found: true, optional: true },
  { name: 'n_atoms', head: 'atoms', show: (row) => String(row.n_atoms), n: true, optional: true },
  { name: 'novelty', head: 'novelty', show: (row) => number(row.novelty), n: true, tried: true, optional: true },
  { name: 'reward', head: 'reward', show: (row) => number(row.reward), n: true, tried: true, optional: true },
  { name: 'status', head: 'status', show: (row) => row.status ?? '–', tried: true, optional: true },
  { name: '', head: 'note', show: (row) => el('span', { class: 'note' }, note(row)), optional: true },
]
const EMPTY = { filtered: 'nothing fits: choose less narrow limits', finds: 'no finds; the list above has what is near, far and otherwise none' }
const KEPT = ['of', 'elements', 'k', 'most', 'where', 'sort', 'descending', 'page']

function note(row) {
  const what = row.what === 'find' || row.what === 'catalogue' ? '' : row.what
  return [what, row.why || row.reason, row.known_in && `known in ${row.known_in}`, row.thin && 'thinly known system'].filter(Boolean).join('; ')
}

// base: address of the interface; kinds: lists below it ({ finds: 'finds', … }), or null for one list.
export function browser(base, kinds) {
  const address = new URLSearchParams(location.search)
  const state = Object.fromEntries(KEPT.map((name) => [name, address.get(name) ?? '']))
  state.of = kinds ? (state.of in kinds ? state.of : Object.keys(kinds)[0]) : ''
  state.page = Math.max(0, Number.parseInt(state.page) || 0)
  const table = el('div', { class: 'scroll', 'aria-live': 'polite' })
  const foot = el('div', { class: 'row', style: 'margin-top: .6rem' })
  let asked = 0

  // All choices as one filter, the one of `anchor export --where`.
  const where = () => {
    const parts = []
    if (state.elements.trim()) parts.push(`elements has (${state.elements.trim().split(/[\s,]+/).join(', ')})`)
    if (state.k) parts.push(`nelements = ${state.k}`)
    if (state.most !== '') parts.push(`e_hull <= ${state.most}`)
    if (state.where.trim()) parts.push(parts.length ? `(${state.where.trim()})` : state.where.trim())
    return parts.join(' and ')
  }
  const wish = () => ({ where: where(), sort: state.sort, descending: state.descending })

  async function load() {
    const mine = ++asked
    const kept = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== '' && value !== 0))
    history.replaceState(null, '', location.pathname + (kept.size ? `?${kept}` : ''))
    try {
      const found = await get(kinds ? `${base}/${state.of}` : base, { ...wish(), page: state.page, size: SIZE })
      if (mine === asked) show(found)
    } catch (error) {
      if (mine === asked) {
        table.replaceChildren(problem(error))
        foot.replaceChildren()
      }
    }
  }

  function head(column, place) {
    if (!column.name) return el('th', { class: place }, column.head)
    const sorted = state.sort === column.name
    const by = () => {
      Object.assign(state, { descending: sorted && !state.descending ? 'true' : '', sort: column.name, page: 0 })
      load()
    }
    const order = sorted ? (state.descending ? 'descending' : 'ascending') : null
    return el('th', { class: place, 'aria-sort': order }, el('button', { type: 'button', onclick: by }, column.head))
  }

  function show({ total, rows }) {
    const columns = COLUMNS.filter((column) => (state.of === 'candidates' ? !column.found : !column.tried))
    const place = (column) => [column.n && 'n', column.optional && 'optional'].filter(Boolean).join(' ')
    const body = rows.map((row) => {
      const open = () => openCard(`${base}/crystals/${row.id}`)
      return el('tr', { class: 'open', tabindex: 0, onclick: open, onkeydown: (event) => event.key === 'Enter' && open() },
        ...columns.map((column) => el('td', { class: place(column) }, column.show(row))))
    })
    table.replaceChildren(el('table', { class: 'list' },
      el('thead', {}, el('tr', {}, ...columns.map((column) => head(column, place(column))))), el('tbody', {}, ...body)))
    const first = state.page * SIZE
    const turn = (by) => () => {
      state.page += by
      load()
    }
    const query = new URLSearchParams(Object.entries(wish()).filter(([, value]) => value))
    const files = { cif: 'CIF (zip)', extxyz: 'extxyz', csv: 'csv' }
    foot.replaceChildren(
      el('span', { class: 'total' }, total ? `${count(first + 1)} to ${count(first + rows.length)} of ${count(total)}` : EMPTY[where() ? 'filtered' : state.of] ?? 'nothing yet'),
      el('button', { type: 'button', onclick: turn(-1), disabled: state.page === 0 }, '‹ back'),
      el('button', { type: 'button', onclick: turn(1), disabled: first + rows.length >= total }, 'next ›'),
      total ? el('span', { class: 'row' }, el('span', { class: 'note' }, 'all of these as'),
        ...Object.entries(files).map(([format, text]) => el('a', { class: 'button', href: `${base}/download/${kinds ? `${state.of}/` : ''}${format}?${query}`, download: true }, text))) : '',
    )
  }

  const change = (name) => (event) => {
    state[name] = event.target.value
    state.page = 0
    load()
  }
  const field = (name, label, properties, box = 'over') => el('label', { class: box }, label, el('input', { type: 'text', name, value: state[name], onchange: change(name), ...properties }))
  const choose = (name, label, options) => el('label', { class: 'over' }, label,
    el('select', { name, onchange: change(name) }, ...options.map(([value, text]) => el('option', { value, selected: state[name] === value }, text))))
  const controls = el('div', { class: 'row low', style: 'margin-bottom: .6rem' },
    kinds ? choose('of', 'list', Object.entries(kinds)) : '',
    field('elements', 'with all of', { placeholder: 'Na, O', size: 9 }),
    choose('k', 'elements', [['', 'any'], ['2', '2'], ['3', '3'], ['4', '4']]),
    field('most', 'at most above hull', { placeholder: '0.1', size: 9, inputmode: 'decimal' }),
    field('where', 'and where', { placeholder: 'novelty > 0.5 and not known' }, 'over where'))
  load()
  return { node: el('div', {}, controls, table, foot), reload: load }
}
