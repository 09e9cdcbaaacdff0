// The card of one crystal: picture, hulls, verdicts, files.
'use strict'
;(() => {
  const A = window.anchor
  const row = (name, ...value) => A.el('tr', {}, A.el('th', { scope: 'row' }, name), A.el('td', {}, ...value))
  // "0.5 SiS2 + 0.5 K2S", with subscripts in the formulas.
  const mixture = (text) => text.split(' + ').flatMap((part, i) => {
    const [amount, ...formula] = part.split(' ')
    return [i ? ' + ' : '', `${amount} `, A.formula(formula.join(' '))]
  })

  function place(entry, labels) {
    const names = ['oqmd', 'mp'].filter((name) => entry.above_each?.[name] !== undefined || entry.decomposition?.[name])
    const others = Object.keys(entry.above_each || {}).filter((n) => !['oqmd', 'mp', 'union', 'dft', 'potential'].includes(n))
    const lines = [...names, ...others].map((name) => A.el('tr', {},
      A.el('th', { scope: 'row' }, labels[name] || name), A.el('td', { class: 'n' }, A.energy(entry.above_each?.[name])),
      A.el('td', {}, ...(entry.decomposition?.[name] ? mixture(entry.decomposition[name]) : ['not recorded']))))
    if (entry.above_each?.dft !== undefined)
      lines.push(A.el('tr', { class: 'dim' }, A.el('th', { scope: 'row' }, 'OQMD, DFT phases only'), A.el('td', { class: 'n' }, A.energy(entry.above_each.dft)), A.el('td')))
    if (!lines.length) return A.el('p', { class: 'note' }, 'No distance to a hull was recorded.')
    return A.el('table', { class: 'facts' },
      A.el('thead', {}, A.el('tr', {}, A.el('th', {}, 'hull'), A.el('th', { class: 'n' }, 'eV/atom above'), A.el('th', {}, 'would decompose into (atomic fractions)'))),
      A.el('tbody', {}, ...lines))
  }

  function verdicts(entry, levels) {
    const given = new Map((entry.verdicts || []).map((v) => [v.level, v]))
    if (entry.refined && !given.has(0)) given.set(0, { passed: true, reason: entry.relaxation || '' })
    let stopped = false
    return A.el('ol', { class: 'levels' }, ...Object.entries(levels).map(([n, words]) => {
      const v = given.get(Number(n))
      const state = !v ? 'untried' : v.passed === null ? 'open' : v.passed ? 'passed' : 'broken'
      const mark = { untried: '·', open: '?', passed: '✓', broken: '✕' }[state]
      const text = v ? v.reason : stopped ? 'not reached' : 'not tried'
      stopped ||= state === 'broken'
      return A.el('li', { class: state }, A.el('span', { class: 'mark', 'aria-label': state }, mark),
        A.el('div', {}, A.el('b', {}, `${n} `), words, text ? A.el('div', { class: 'note' }, text) : ''))
    }))
  }

  function potentials(entry, own) {
    const all = [[`${own} (searched with)`, entry.above], ...Object.entries(entry.potentials || {})]
    const silent = Object.entries(entry.silent || {})
    return A.el('div', {},
      A.el('table', { class: 'facts' }, A.el('tbody', {}, ...all.map(([name, e]) => A.el('tr', {},
        A.el('th', { scope: 'row' }, name), A.el('td', { class: 'n' }, A.energy(e)),
        A.el('td', {}, e === undefined ? '' : e <= 0 ? 'on or below the hull' : 'above it')))), ),
      ...silent.map(([name, why]) => A.el('p', { class: 'note' }, `${name}: no answer (${why})`)),
      entry.potentials ? '' : A.el('p', { class: 'note' }, 'No other potential was asked: anchor verify FOLDER.'))
  }

  A.card = (dialog, entry, data, buttons) => {
    const picture = A.el('div', { class: 'crystal' })
    const diagram = A.el('div', { class: 'diagram' })
    const name = `${entry.formula}-${entry.id}`
    const file = (words, ending, make) => A.el('button', { type: 'button', 'data-file': ending, onclick: () => A.download(`${name}${ending}`, make(entry)) }, words)
    const flags = A.flags(entry)
    const known = entry.space_group_known
    dialog.replaceChildren(
      A.el('header', {}, A.el('h2', {}, A.formula(entry.formula), ' ', A.chip(entry.standing)), A.el('nav', {}, ...buttons)),
      A.el('p', { class: 'note lead' }, `${data.standings[entry.standing].about}.`),
      A.el('div', { class: 'columns' },
        A.el('div', {}, picture,
          A.el('div', { class: 'save' }, file('CIF', '.cif', A.cif), file('POSCAR', '.vasp', A.poscar), file('extxyz', '.extxyz', (e) => A.extxyz([e])),
            file('pymatgen', '.json', (e) => JSON.stringify(A.structure(e.crystal))))),
        A.el('div', {},
          A.el('table', { class: 'facts' }, A.el('tbody', {},
            row('Space group', A.group(entry.space_group ?? 'not determined'), entry.space_group_number ? ` (${entry.space_group_number})` : ''),
            row('Above the hull', A.el('b', {}, A.energy(entry.above)), ' eV/atom (negative: below)'),
            entry.above_with_finds === undefined ? '' : row('… with all finds on it', A.energy(entry.above_with_finds), ' eV/atom'),
            entry.formation === undefined ? '' : row('Formation', A.energy(entry.formation), ' eV/atom'),
            row('Atoms in the cell', String(entry.atoms)),
            entry.percentile ? row('Depth', `deeper than ${(Math.floor(10 * entry.percentile) / 10).toFixed(1)} % of known compounds of its kind`) : '',
            entry.known_in && entry.novelty !== undefined ? row('Novelty', `${entry.novelty} against known crystals of its formula`) : '',
            entry.phases_known ? row('Known in its system', entry.phases_known) : '',
            entry.known_in ? row('Formula known in', entry.known_in, known === true ? ', in this space group' : known === false ? ', in another space group' : '') : '',
            entry.nearest ? row('Nearest known crystal', A.formula(entry.nearest.formula), ` (${entry.nearest.about})`) : '',
            entry.made_by ? row('Made by', entry.made_by) : '',
            row('Candidate', String(entry.id)))),
          flags.length ? A.el('ul', { class: 'flags' }, ...flags.map(([word, why]) => A.el('li', {}, A.el('span', { class: 'flag' }, word), ` ${why}`))) : '')),
      A.el('h3', {}, 'Both hulls'), A.el('div', { class: 'scroll' }, place(entry, data.hulls.labels || {})),
      A.el('div', { class: 'columns' },
        A.el('div', {}, A.el('h3', {}, 'Hull around it'), diagram,
          A.el('h3', {}, 'What each potential says, eV/atom above the hull'), potentials(entry, data.about.potential)),
        A.el('div', {}, A.el('h3', {}, 'Checks'), verdicts(entry, data.levels))),
    )
    A.hullDiagram(diagram, entry, data.entries, data.hulls)
    A.showCrystal(picture, entry.crystal)
  }
})()
