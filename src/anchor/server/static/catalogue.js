// The catalogue that ships.
import { el, fill, title } from './common.js'
import { browser } from './browser.js'

fill(async () => [
  title('Catalogue'),
  el('p', { class: 'sub' }, 'Crystals that searches have found, what survived most first. Proposals of a machine-learned potential: recompute what you care about.'),
  el('section', {}, browser('/api/catalogue', null).node),
])
