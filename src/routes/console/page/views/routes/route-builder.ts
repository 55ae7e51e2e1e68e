import { useState } from 'preact/hooks'
import type { RouteAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { lazy } from '../../lazy.ts'
import { Button } from '../../parts/button.ts'
import { useHealth } from '../../parts/health.ts'
import { ManagedByFile, PageHead } from '../../parts/page-head.ts'
import { Note } from '../../parts/states.ts'
import { Tabs } from '../../parts/tabs.ts'
import { pathOf } from '../../paths.ts'
import { useLeaveGuard, useQuery } from '../../router.ts'
import { Changes } from './changes.ts'
import { DeleteRoute, DiscardDraft } from './delete-route.ts'
import { DraftState } from './draft-state.ts'
import { EntryList } from './entry-list.ts'
import { PublishRoute } from './publish-route.ts'
import { readFaults } from './route-faults.ts'
import type { Surroundings } from './route-page.ts'
import { RouteSettings } from './route-settings.ts'
import { RouteState } from './route-state.ts'
import { PLAIN_FORM } from './sample-form.ts'
import { TryRequest } from './try-request.ts'
import { type Draft, useDraft } from './use-draft.ts'
import { useExplain } from './use-explain.ts'
import { verdictsOf } from './verdicts.ts'

const History = lazy({
  title: 'The history',
  load: async () => (await import('./history.ts')).History,
})

type Asking = 'publish' | 'discard' | 'delete'

/** A route while it is built: its entries, what would become of a request, what has changed, and its past. */
export function RouteBuilder(props: { readonly initial: RouteAnswer; readonly surroundings: Surroundings }) {
  const { initial, surroundings } = props
  const draft = useDraft(initial)
  const [query, setQuery] = useQuery()
  const [asking, setAsking] = useState<Asking | null>(null)
  const { known } = draft.saving
  const readOnly = known.managed_by === 'file'
  useLeaveGuard(draft.phase !== 'same', 'You have unsaved changes. Leave anyway?')
  const tabs = [
    { id: 'entries', label: 'Entries', count: draft.editing.entries.length },
    { id: 'changes', label: 'Changes', count: known.draft?.changes.length ?? 0 },
    { id: 'history', label: 'History' },
  ]
  const shown = readOnly ? tabs.slice(0, 1) : tabs
  const tab = shown.find(({ id }) => id === query.get('tab'))?.id ?? 'entries'
  const setTab = (id: string) => setQuery({ tab: id === 'entries' ? null : id })
  return html`
    <${Head} draft=${draft} onAsk=${setAsking} />
    ${
      readOnly
        ? html`<div class="routes-state"><${ManagedByFile} what=${`the route ${known.name}`} /></div>`
        : html`<${DraftState} draft=${draft} />`
    }
    <${WhyNotInForce} faults=${known.faults ?? []} />
    <${Tabs} label="Route sections" tabs=${shown} chosen=${tab} onChoose=${setTab}>
      <div class=${tab === 'entries' ? 'routes-tab' : 'routes-tab routes-tab-off'}>
        <${Building} draft=${draft} surroundings=${surroundings} readOnly=${readOnly} />
      </div>
      ${tab === 'changes' ? html`<${Changes} known=${known} fields=${draft.fields} />` : null}
      ${
        tab === 'history'
          ? html`<${History} known=${known} onAnswer=${draft.load} onConflict=${draft.foundConflict} />`
          : null
      }
    <//>
    ${asking === 'publish' ? html`<${PublishRoute} draft=${draft} onClose=${() => setAsking(null)} />` : null}
    ${asking === 'discard' ? html`<${DiscardDraft} draft=${draft} onClose=${() => setAsking(null)} />` : null}
    ${asking === 'delete' ? html`<${DeleteRoute} known=${known} onClose=${() => setAsking(null)} />` : null}
  `
}

/** What was published does not fit what the file, or another part, says by now. */
function WhyNotInForce({ faults }: { readonly faults: readonly string[] }) {
  if (faults.length === 0) return null
  return html`<div class="routes-state">
    <${Note} tone="bad">
      <p>The published version isn’t active. Fix it here and publish again, or fix what it refers to:</p>
      <ul class="faults">${faults.map((line) => html`<li key=${line}>${line}</li>`)}</ul>
    <//>
  </div>`
}

/** Its name and state, and what can be done with the whole of it. */
function Head({ draft, onAsk }: { readonly draft: Draft; readonly onAsk: (asking: Asking) => void }) {
  const { known } = draft.saving
  const { published } = known
  const readOnly = known.managed_by === 'file'
  const faults = known.draft?.faults.length ?? 0
  const unread = draft.editing.entries.some((entry) => Object.keys(entry.unread).length > 0)
  const hasChanges = known.draft !== null || draft.phase !== 'same'
  const mayPublish =
    hasChanges && draft.phase !== 'conflict' && !unread && !(draft.phase === 'same' && faults > 0)
  const badges = html`<${RouteState}
      version=${published?.version ?? null}
      in_service=${published !== null && published.fields.published !== false}
      has_draft=${known.draft !== null}
      managed_by=${known.managed_by}
      faults=${known.faults}
    />
    <span class="mono small quiet" title="Live version">${published?.version ?? ''}</span>`
  const actions = readOnly
    ? null
    : html`
        <${Button} kind="danger" icon="trash" label="Delete route" onClick=${() => onAsk('delete')} />
        ${
          known.draft !== null && published !== null
            ? html`<${Button} onClick=${() => onAsk('discard')}>Discard draft<//>`
            : null
        }
        <${Button} kind="primary" onClick=${() => onAsk('publish')} disabled=${!mayPublish}>Publish…<//>
      `
  return html`<${PageHead}
    title=${known.name}
    parent=${{ href: pathOf(known.workspace, 'routes'), label: 'Routes' }}
    badges=${badges}
    actions=${actions}
  />`
}

/** The entries, and beside them what would become of a request. */
function Building(props: {
  readonly draft: Draft
  readonly surroundings: Surroundings
  readonly readOnly: boolean
}) {
  const { draft, surroundings, readOnly } = props
  const { editing, fields, edit, saving, phase } = draft
  const { known } = saving
  const [form, setForm] = useState(PLAIN_FORM)
  const asIs = readOnly || (known.draft === null && phase === 'same')
  const explanation = useExplain(
    { workspace: known.workspace, route: known.name, fields: asIs ? null : fields },
    form,
  )
  const { answer, purpose } = explanation
  const health = useHealth(known.workspace) ?? null
  const verdicts = verdictsOf(answer ?? { entries: [] }, known.name, fields.entries, purpose)
  // The explanation looks at what is on the screen, the draft at what was saved of it.
  const lines = (phase === 'same' ? known.draft?.faults : answer?.faults) ?? []
  const faults = readFaults(lines, known.name)
  return html`<div class="main-aside routes-building">
    <div class="stack stack-loose">
      <${RouteSettings} editing=${editing} edit=${edit} faults=${faults} readOnly=${readOnly} />
      <${EntryList}
        editing=${editing}
        edit=${edit}
        faults=${faults}
        verdicts=${verdicts}
        surroundings=${surroundings}
        route=${known.name}
        health=${health}
        readOnly=${readOnly}
      />
    </div>
    <${TryRequest}
      form=${form}
      onChange=${setForm}
      explanation=${explanation}
      verdicts=${verdicts}
      strategy=${editing.strategy}
      route=${known}
      workspace=${surroundings.workspace}
    />
  </div>`
}
