import { useEffect, useState } from 'preact/hooks'
import type { SessionAnswer } from '../../api/answers.ts'
import { html } from '../html.ts'
import { chooseTheme, storedTheme, type Theme } from '../theme.ts'
import { Button } from './button.ts'
import { Icon } from './icon.ts'
import { Time } from './time.ts'

const THEMES: readonly (readonly [Theme, string])[] = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

/** Whose session it is and until when, the theme, and the way out. */
export function AccountMenu(props: { readonly session: SessionAnswer; readonly onSignOut: () => void }) {
  const { key, role, expires_at: expiresAt, version } = props.session
  return html`<button class="account" type="button" popovertarget="account" title="Session and theme">
      <${Icon} name="user" /><span class="account-name">${key.name}</span>
      <span class="hidden">, session and theme</span>
    </button>
    <div class="account-panel" id="account" popover="auto">
      <div>
        <p class="account-key">${key.name}</p>
        <p class="quiet small"><code>${key.id}</code> · ${role}</p>
        <p class="quiet small">Session ends <${Time} at=${expiresAt} /></p>
      </div>
      <${ThemeChoice} />
      <div class="row row-apart">
        <${Button} onClick=${props.onSignOut}>Sign out<//>
        <span class="quiet small">Larkway ${version}</span>
      </div>
    </div>`
}

function ThemeChoice() {
  const [theme, setTheme] = useState<Theme>(storedTheme)
  useEffect(() => {
    // Another tab chose.
    const listener = () => setTheme(storedTheme())
    addEventListener('lk-theme', listener)
    return () => removeEventListener('lk-theme', listener)
  }, [])
  return html`<fieldset class="segments">
    <legend class="field-label">Theme</legend>
    <div class="segments-row">
      ${THEMES.map(
        ([value, label]) => html`<label class="segment" key=${value}>
          <input
            type="radio"
            name="theme"
            value=${value}
            checked=${theme === value}
            onChange=${() => chooseTheme(value)}
          /><span>${label}</span>
        </label>`,
      )}
    </div>
  </fieldset>`
}
