import { render } from 'preact'
import { App } from './app.ts'
import { h } from './h.ts'
import { startRouter } from './router.ts'
import { applyTheme, storedTheme } from './theme.ts'

startRouter()
// Another tab may choose another theme.
addEventListener('storage', () => applyTheme(storedTheme()))

const place = document.getElementById('console')
if (place) render(h(App, null), place)
