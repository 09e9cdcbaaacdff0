// The table of all finds: it sorts, filters, and opens a card for each.
'use strict'
;(() => {
  const A = window.anchor
  const PAGE = 20
  const WORDS = { find: 'find', near: 'near', far: 'far', deep: 'too deep', failed: 'failed', known: 'known' }
  const levelText = (entry) => (entry.level === undefined ? '–' : String(entry.level))

  const chip = (standing) => A.el('span', { class: `chip ${standing}` }, WORDS[standing])
  A.chip = chip

  // What must be known about an entry, in a few words.
  A.flags = (entry) => {
    const flags = []
    if (!entry.refined) flags.push(['cell not relaxed', 'Only positions were relaxed, as the search does it.'])
    if (entry.above <= 0 && entry.above_with_finds > 0) flags.push(['beaten', 'Above the hull once the other finds compete.'])
    if (entry.thin) flags.push(['thin', entry.thin])
    if (entry.holes) flags.push(['holes', entry.holes])
    if (entry.percentile > 99) flags.push(['deep', `Deeper than ${entry.percentile} % of known compounds of its kind.`])
    if (entry.relaxation && entry.relaxation !== 'converged') flags.push([`relaxation ${entry.relaxation}`, 'The relaxation did not converge.'])
    return flags
  }

  const COLUMNS = [
    { name: 'formula', head: 'Formula', value: (e) => e.formula, cell: (e) => A.formula(e.formula) },
    { name: 'standing', head: 'What', value: (e, order) => order.indexOf(e.standing), cell: (e) => chip(e.standing) },
    { name: 'level', head: 'Level', about: 'Level of checks passed', value: (e) => -(e.level ?? -1), cell: levelText, n: true },
    { name: 'above', head: 'E above hull', about: 'eV/atom, the larger of both hulls', value: (e) => e.above ?? 99, cell: (e) => A.energy(e.above), n: true },
    { name: 'with', head: 'with finds', about: 'eV/atom, all finds of this search on the hull', value: (e) => e.above_with_finds ?? 99, cell: (e) => A.energy(e.above_with_finds), n: true, wide: true },
    { name: 'oqmd', head: 'OQMD', about: 'eV/atom above OQMD’s hull', value: (e) => e.above_each?.oqmd ?? 99, cell: (e) => A.energy(e.above_each?.oqmd), n: true, wide: true },
    { name: 'mp', head: 'MP', about: 'eV/atom above the Materials Project’s hull', value: (e) => e.above_each?.mp ?? 99, cell: (e) => A.energy(e.above_each?.mp), n: true, wide: true },
    { name: 'group', head: 'Space group', value: (e) => e.space_group_number ?? 999, cell: (e) => A.group(e.space_group), wide: true },
    { name: 'atoms', head: 'Atoms', value: (e) => e.atoms, cell: (e) => String(e.atoms), n: true, wide: true },
    { name: 'notes', head: 'Notes', value: (e) => A.flags(e).length, cell: (e) => A.flags(e).map(([word, why]) => A.el('span', { class: 'flag', title: why }, word)), wide: true },
  ]

  // data: entries, standings, levels, hulls. Returns {elements, refresh, open} for the periodic table and links.
  A.findsTable = (host, data) => {
    const order = Object.keys(data.standings)
    const kinds = new Set()
    const elements = new Set()
    let least = '', most = '', text = '', sort = null, down = false, page = 0, rows = []
    const present = order.filter((name) => data.entries.some((e) => e.standing === name))
    if (present.length) kinds.add(present[0])

    const chips = A.el('div', { class: 'chips', role: 'group', 'aria-label': 'What to show' })
    for (const name of present) {
      const shown = data.entries.filter((e) => e.standing === name).length
      const all = data.standings[name].count
      chips.append(A.el('button', {
        type: 'button', class: `chip ${name}`, 'data-standing': name, title: data.standings[name].about,
        onclick: () => { kinds.has(name) ? kinds.delete(name) : kinds.add(name); page = 0; refresh() },
      }, `${WORDS[name]} `, A.el('b', {}, shown === all ? A.count(all) : `${A.count(shown)} of ${A.count(all)}`)))
    }
    const on = (set) => (event) => { set(event.target.value); page = 0; refresh() }
    const box = A.el('input', { type: 'search', placeholder: 'Na O', 'aria-label': 'Elements that it contains', size: 8, 'data-filter': 'elements',
      oninput: on((v) => { elements.clear(); for (const s of v.match(/[A-Z][a-z]?/g) || []) elements.add(s) }) })
    const filters = A.el('div', { class: 'filters' },
      A.el('label', {}, 'contains ', box),
      A.el('label', {}, 'formula ', A.el('input', { type: 'search', size: 8, 'data-filter': 'formula', oninput: on((v) => (text = v.toLowerCase())) })),
      A.el('label', {}, 'level at least ', A.el('select', { 'data-filter': 'level', onchange: on((v) => (least = v)) },
        A.el('option', { value: '' }, 'any'), ...Object.entries(data.levels).map(([n, words]) => A.el('option', { value: n }, `${n}: ${words}`)))),
      A.el('label', {}, 'at most ', A.el('input', { type: 'number', step: '0.01', 'data-filter': 'above', 'aria-label': 'eV/atom above the hull, at most', oninput: on((v) => (most = v)) }), ' eV/atom'),
    )
    const said = A.el('p', { class: 'said', 'aria-live': 'polite' })
    const save = A.el('span', { class: 'save' },
      A.el('button', { type: 'button', onclick: () => A.download('finds.csv', A.csv(rows), 'text/csv') }, 'Table (CSV)'),
      A.el('button', { type: 'button', onclick: () => A.download('finds.extxyz', A.extxyz(rows)) }, 'Crystals (extxyz)'))
    const head = A.el('tr', {}, ...COLUMNS.map((c) =>
      A.el('th', { class: `${c.n ? 'n' : ''} ${c.wide ? 'wide' : ''}`, title: c.about, scope: 'col' },
        A.el('button', { type: 'button', 'data-sort': c.name, onclick: () => { down = sort === c ? !down : false; sort = c; refresh() } }, c.head))))
    const body = A.el('tbody')
    const pager = A.el('div', { class: 'pager' })
    host.replaceChildren(chips, filters, A.el('div', { class: 'line' }, said, save),
      A.el('div', { class: 'scroll' }, A.el('table', { class: 'finds' }, A.el('thead', {}, head), body)), pager)

    function refresh() {
      rows = data.entries.filter((e) =>
        (!kinds.size || kinds.has(e.standing)) && [...elements].every((s) => e.elements.includes(s)) &&
        (least === '' || (e.level ?? -1) >= Number(least)) && (most === '' || (e.above ?? Infinity) <= Number(most)) &&
        (!text || e.formula.toLowerCase().includes(text)))
      if (sort) {
        const keyed = rows.map((e, i) => [sort.value(e, order), i, e])
        keyed.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (down ? -1 : 1) || a[1] - b[1])
        rows = keyed.map((k) => k[2])
      }
      for (const button of chips.children) button.setAttribute('aria-pressed', String(kinds.has(button.dataset.standing)))
      head.querySelectorAll('th').forEach((th, i) =>
        COLUMNS[i] === sort ? th.setAttribute('aria-sort', down ? 'descending' : 'ascending') : th.removeAttribute('aria-sort'))
      const pages = Math.max(1, Math.ceil(rows.length / PAGE))
      page = Math.max(0, Math.min(page, pages - 1))
      body.replaceChildren(...rows.slice(page * PAGE, (page + 1) * PAGE).map((e) =>
        A.el('tr', { 'data-id': e.id, onclick: () => open(e) }, ...COLUMNS.map((c, i) =>
          A.el('td', { class: `${c.n ? 'n' : ''} ${c.wide ? 'wide' : ''}` },
            i ? c.cell(e) : A.el('button', { type: 'button', class: 'open' }, c.cell(e)))))))
      if (!rows.length) body.append(A.el('tr', {}, A.el('td', { colspan: COLUMNS.length, class: 'note' }, 'Nothing matches these filters.')))
      said.textContent = `${A.count(rows.length)} of ${A.count(data.entries.length)} crystals`
      const go = (to, word) => A.el('button', { type: 'button', disabled: to < 0 || to >= pages, onclick: () => { page = to; refresh() } }, word)
      pager.replaceChildren(...(pages > 1 ? [go(page - 1, '‹ before'), A.el('span', {}, `page ${page + 1} of ${pages}`), go(page + 1, 'next ›')] : []))
      save.hidden = !rows.length
    }

    const dialog = A.el('dialog', { class: 'card', 'aria-label': 'Crystal' })
    dialog.addEventListener('click', (event) => event.target === dialog && dialog.close())
    dialog.addEventListener('close', () => { dialog.replaceChildren(); history.replaceState(null, '', '#finds') })
    document.body.append(dialog)
    function open(entry) {
      const at = rows.indexOf(entry)
      const step = (by) => A.el('button', { type: 'button', disabled: at < 0 || !rows[at + by], onclick: () => open(rows[at + by]) }, by < 0 ? '‹ before' : 'next ›')
      A.card(dialog, entry, data, [step(-1), step(1), A.el('button', { type: 'button', class: 'close', 'aria-label': 'Close', onclick: () => dialog.close() }, '✕')])
      if (!dialog.open) dialog.showModal()
      dialog.scrollTop = 0
      history.replaceState(null, '', `#crystal-${entry.id}`)
    }
    refresh()
    const linked = /^#crystal-(\d+)$/.exec(location.hash)
    const found = linked && data.entries.find((e) => e.id === Number(linked[1]))
    if (found) open(found)
    return {
      elements,
      toggle(symbol) {
        elements.has(symbol) ? elements.delete(symbol) : elements.add(symbol)
        box.value = [...elements].join(' ')
        page = 0
        refresh()
      },
      open,
    }
  }
})()
