// One ES module with everything inside: it is read from disk by the report, served by the page, loaded by Jupyter.
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

export default defineConfig({
  plugins: [
    // HDF5 trajectories are 2 MB of WebAssembly that nobody here opens.
    {
      name: 'without-h5wasm',
      enforce: 'pre',
      resolveId: (id) => (id === 'h5wasm' ? '\0h5wasm' : null),
      load: (id) => (id === '\0h5wasm' ? 'export const ready = null, Dataset = Object, Group = Object, File = Object' : null),
    },
    svelte({ compilerOptions: { css: 'injected' }, emitCss: false }),
  ],
  build: {
    outDir: '../src/anchor/report/built',
    emptyOutDir: true,
    assetsInlineLimit: () => true, // WebAssembly of the symmetry finder, too: nothing is fetched
    modulePreload: false,
    chunkSizeWarningLimit: 10_000,
    // Not library mode: that one leaves white space in.
    rollupOptions: {
      input: 'src/crystal-view.js',
      preserveEntrySignatures: 'exports-only',
      output: { format: 'es', entryFileNames: 'crystal-view.js', codeSplitting: false },
    },
  },
})
