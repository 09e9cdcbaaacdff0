"""The page: what a folder holds, in a browser on this machine (`anchor serve`), and OPTIMADE for programs."""
