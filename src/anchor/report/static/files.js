// Crystals and tables as files, made in the browser.
'use strict'
;(() => {
  const A = window.anchor
  const fixed = (v, n = 6) => v.toFixed(n)

  function order(crystal) {
    // Atoms of an element together, in the order of atomic numbers, as POSCAR wants them.
    return crystal.numbers.map((z, i) => [z, i]).sort((a, b) => a[0] - b[0] || a[1] - b[1])
  }
  const frac = (crystal, i) => crystal.frac.slice(3 * i, 3 * i + 3)
  const one = (text) => String(text).replace(/[\r\n]+/g, ' ')

  A.cif = (entry) => {
    const { lattice } = A.structure(entry.crystal)
    const count = {}
    const atoms = order(entry.crystal).map(([z, i]) => {
      const symbol = A.elements[z][0]
      count[symbol] = (count[symbol] || 0) + 1
      return `${symbol} ${symbol}${count[symbol]} ${frac(entry.crystal, i).map((x) => fixed(x)).join(' ')} 1`
    })
    return [
      `# ${one(entry.formula)}, candidate ${entry.id} of an anchor search; symmetry is left to the reader: ${one(entry.space_group ?? 'not determined')}`,
      `data_${one(entry.formula).replace(/[^A-Za-z0-9]/g, '_')}`,
      `_cell_length_a ${fixed(lattice.a)}`, `_cell_length_b ${fixed(lattice.b)}`, `_cell_length_c ${fixed(lattice.c)}`,
      `_cell_angle_alpha ${fixed(lattice.alpha)}`, `_cell_angle_beta ${fixed(lattice.beta)}`, `_cell_angle_gamma ${fixed(lattice.gamma)}`,
      "_space_group_name_H-M_alt 'P 1'", '_space_group_IT_number 1',
      'loop_', '_space_group_symop_operation_xyz', "'x, y, z'",
      'loop_', '_atom_site_type_symbol', '_atom_site_label', '_atom_site_fract_x', '_atom_site_fract_y', '_atom_site_fract_z', '_atom_site_occupancy',
      ...atoms, '',
    ].join('\n')
  }

  A.poscar = (entry) => {
    const atoms = order(entry.crystal)
    const numbers = [...new Set(atoms.map(([z]) => z))]
    return [
      one(entry.formula), '1.0',
      ...A.cell(entry.crystal).map((row) => row.map((x) => fixed(x, 8)).join(' ')),
      numbers.map((z) => A.elements[z][0]).join(' '),
      numbers.map((z) => atoms.filter(([y]) => y === z).length).join(' '),
      'direct', ...atoms.map(([, i]) => frac(entry.crystal, i).map((x) => fixed(x, 8)).join(' ')), '',
    ].join('\n')
  }

  A.extxyz = (entries) =>
    entries.map((entry) => {
      const cell = A.cell(entry.crystal)
      const quote = (text) => `"${one(text).replace(/["\\]/g, ' ')}"`
      const about = [
        `Lattice="${entry.crystal.lattice.join(' ')}"`, 'Properties=species:S:1:pos:R:3', 'pbc="T T T"',
        `id=${entry.id}`, `formula=${quote(entry.formula)}`, `standing=${entry.standing}`,
        entry.above === undefined ? '' : `e_above_hull=${entry.above}`, entry.level === undefined ? '' : `level=${entry.level}`,
      ]
      const atoms = entry.crystal.numbers.map((z, i) => `${A.elements[z][0]} ${A.cartesian(frac(entry.crystal, i), cell).map((x) => fixed(x, 8)).join(' ')}`)
      return `${atoms.length}\n${about.filter(Boolean).join(' ')}\n${atoms.join('\n')}\n`
    }).join('')

  const COLUMNS = [
    ['candidate', (e) => e.id], ['formula', (e) => e.formula], ['standing', (e) => e.standing], ['level', (e) => e.level],
    ['energy_above_hull_ev_per_atom', (e) => e.above], ['energy_above_hull_with_finds_ev_per_atom', (e) => e.above_with_finds],
    ['energy_above_oqmd_hull_ev_per_atom', (e) => e.above_each?.oqmd], ['energy_above_mp_hull_ev_per_atom', (e) => e.above_each?.mp],
    ['spacegroup', (e) => e.space_group], ['n_atoms', (e) => e.atoms], ['relaxed_with_cell', (e) => e.refined],
    ['thin', (e) => e.thin], ['known_in', (e) => e.known_in],
  ]
  A.csv = (entries) => {
    const quote = (v) => (v === undefined ? '' : typeof v === 'string' ? `"${v.replace(/"/g, '""').replace(/^[=+@-]/, "'$&")}"` : String(v))
    return [COLUMNS.map(([name]) => name).join(','), ...entries.map((e) => COLUMNS.map(([, of]) => quote(of(e))).join(','))].join('\n') + '\n'
  }
})()
