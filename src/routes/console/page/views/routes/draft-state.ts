import { useState } from 'preact/hooks'
import type { RouteAnswer } from '../../../api/answers.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Dialog } from '../../parts/dialog.ts'
import { Icon } from '../../parts/icon.ts'
import { Fault } from '../../parts/states.ts'
import { Time } from '../../parts/time.ts'
import { pathOf } from '../../paths.ts'
import { FieldsDiff } from './changes.ts'
import { changedBy, keptFields } from './saving.ts'
import type { Draft } from './use-draft.ts'

/** What is saved of the route, what serves, and what to do when neither is what is on the screen. */
export function DraftState({ draft }: { readonly draft: Draft }) {
  const { phase, saving } = draft
  const { known, conflict, failed } = saving
  const faults = known.draft?.faults.length ?? 0
  const isTroubled = phase === 'failed' || phase === 'conflict'
  return html`<div class="stack stack-tight routes-state">
    <p
      class=${`small routes-state-line${isTroubled ? ' routes-state-troubled' : ''}`}
      role="status"
      data-phase=${phase}
    >
      <${Words} phase=${phase} known=${known} />
    </p>
    ${
      phase === 'same' && faults > 0
        ? html`<p class="small routes-state-bad">Fix ${plural(faults, 'error')} to publish.</p>`
        : null
    }
    ${
      failed !== null && phase === 'failed'
        ? html`<div class="stack stack-tight">
            <${Fault} error=${failed} what="Draft not saved" />
            <div><${Button} small icon="refresh" onClick=${draft.flush}>Save now<//></div>
          </div>`
        : null
    }
    ${conflict === null ? null : html`<${Conflict} draft=${draft} theirs=${conflict} />`}
  </div>`
}

function Words({ phase, known }: { readonly phase: Draft['phase']; readonly known: RouteAnswer }) {
  const { draft, published } = known
  if (phase === 'unsaved' || phase === 'saving')
    return html`<span class="spin" aria-hidden="true"></span><span>Saving the draft…</span>`
  if (phase === 'failed') return html`<${Icon} name="alert" /><span>Unsaved changes.</span>`
  if (phase === 'conflict') return html`<${Icon} name="alert" /><span>Someone else edited this draft.</span>`
  if (draft !== null)
    return html`<${Icon} name="check" />
      <span>
        Draft saved <${Time} at=${draft.saved_at} /> by ${draft.saved_by}.
        ${published === null ? ' Not live until you publish.' : html` ${serving(published)} is still live.`}
      </span>`
  if (published === null) return html`<span>This route was removed.</span>`
  return html`<${Icon} name="check" />
    <span>
      ${serving(published)} is live${
        published.published_at === null ? null : html`, published <${Time} at=${published.published_at} />`
      }${published.published_by === null ? null : ` by ${published.published_by}`}.${' '}
      ${
        known.apps.length === 0
          ? html`No app uses it yet. <a href=${pathOf(known.workspace, 'apps')}>Assign an app</a>.`
          : 'Changes are saved as a draft automatically.'
      }
    </span>`
}

function serving({ number }: NonNullable<RouteAnswer['published']>): string {
  return number === null ? 'The file’s version' : `Version ${number}`
}

const DID = {
  saved: 'saved this draft',
  published: 'published this route',
  removed: 'removed this route',
} as const

/** Two people edit at once: whose draft goes on has to be said, with both seen. */
function Conflict({ draft, theirs }: { readonly draft: Draft; readonly theirs: RouteAnswer }) {
  const [comparing, setComparing] = useState(false)
  const { name, at, did } = changedBy(theirs)
  const who = name ?? 'Someone'
  const mine = draft.fields
  return html`<div class="note note-warn" role="alert">
    <${Icon} name="alert" />
    <div class="note-text stack stack-tight">
      <p>
        ${who} ${DID[did]}
        ${at === null ? null : html` <${Time} at=${at} />`} while you edited it. Your changes are on this screen only.
      </p>
      <div class="row">
        <${Button} small onClick=${() => setComparing(true)}>Compare<//>
        <${Button} small onClick=${() => draft.load(theirs)}>Use theirs<//>
        <${Button} small onClick=${draft.keepMine}>Overwrite with mine<//>
      </div>
    </div>
    ${
      comparing
        ? html`<${Dialog} title="Theirs and yours" wide onClose=${() => setComparing(false)}>
            <${FieldsDiff} before=${keptFields(theirs)} after=${mine} names=${[`Theirs (${who})`, 'Yours']} />
          <//>`
        : null
    }
  </div>`
}
