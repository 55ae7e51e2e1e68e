import { render } from 'preact'
import { App } from './app.ts'
import { h } from './h.ts'
import { placeOfPath } from './paths.ts'
import { startRouter } from './router.ts'
import { applyTheme, storedTheme } from './theme.ts'
import { viewAt } from './views.ts'

startRouter()
// Another tab may choose another theme.
addEventListener('storage', () => applyTheme(storedTheme()))

const element = document.getElementById('console')
if (element) render(h(App, null), element)
// Shown while the session is asked for; the sign-in covers it, too.
const place = placeOfPath(location.pathname)
if (place) viewAt(place)?.view.prepare()
