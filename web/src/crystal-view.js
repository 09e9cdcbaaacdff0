// <crystal-view>: matterviz in a box. `element.structure = dict` (pymatgen's as_dict) shows a crystal.
// The default export is an anywidget with the same property, for Jupyter.
import { mount, unmount } from 'svelte'
import element_data from 'matterviz/element/data'
import 'matterviz/theme/themes'
import { Structure } from 'matterviz/structure'
import { apply_theme_to_dom } from 'matterviz/theme'

const HEIGHT = '100%' // of the box; matterviz alone would take 500 px

const METALS = new Set(element_data.filter((element) => element.metal).map((element) => element.symbol))

// No bond between metals, unless there is nothing else: as in the small viewer of the report.
function bonding(structure) {
  const compound = structure.sites.some((site) => site.species.some(({ element }) => !METALS.has(element)))
  return compound ? { metal_metal_penalty: 0 } : {}
}

function show(target, structure) {
  return mount(Structure, {
    target,
    props: {
      structure,
      style: `height: ${HEIGHT}; width: 100%; min-height: 0; border-radius: inherit`,
      allow_file_drop: false,
      enable_info_pane: false,
      enable_measure_mode: false,
      show_image_atoms: true,
      background_opacity: 0,
      scene_props: { bonding_options: bonding(structure) },
    },
  })
}

function dark() {
  const chosen = document.documentElement.dataset.theme
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
}

export class CrystalView extends HTMLElement {
  #structure
  #shown

  set structure(dict) {
    this.#structure = dict
    if (this.isConnected) this.#draw()
  }

  get structure() {
    return this.#structure
  }

  connectedCallback() {
    this.style.display ||= 'block'
    this.#follow()
    window.addEventListener('anchor-theme', this.#follow)
    this.#draw()
  }

  disconnectedCallback() {
    window.removeEventListener('anchor-theme', this.#follow)
    this.#clear()
  }

  // Colours of its menus, which are those of the whole document.
  #follow = () => apply_theme_to_dom(dark() ? 'dark' : 'light')

  #draw() {
    this.#clear()
    if (this.#structure) this.#shown = show(this, this.#structure)
  }

  #clear() {
    if (this.#shown) unmount(this.#shown)
    this.#shown = undefined
  }
}

if (!customElements.get('crystal-view')) customElements.define('crystal-view', CrystalView)

export default {
  render({ model, el }) {
    const view = document.createElement('crystal-view')
    view.style.height = `${model.get('height')}px`
    view.structure = model.get('structure')
    model.on('change:structure', () => (view.structure = model.get('structure')))
    el.append(view)
    return () => view.remove()
  },
}
