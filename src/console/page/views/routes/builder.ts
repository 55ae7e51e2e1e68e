import { useState } from 'preact/hooks'
import type { Strategy } from '../../../../contracts/catalog.ts'
import type { RouteFields } from '../../../../gateway/catalog/file.ts'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import type { RouteAnswer, TrafficAnswer } from '../../../server/answers/routes.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Button, Icon } from '../../components/button.ts'
import { Checkbox } from '../../components/choice.ts'
import { Dialog } from '../../components/dialog.ts'
import { Select } from '../../components/field.ts'
import { useHealth } from '../../components/health.ts'

import { ManagedByFile, PageHead, Section } from '../../components/page-head.ts'
import { EmptyState, ErrorNote, Loaded, Note, Skeleton } from '../../components/states.ts'
import { Tabs } from '../../components/tabs.ts'
import { Time } from '../../components/time.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { useLeaveGuard, useQuery } from '../../router.ts'
import type { Draft, Edit, Editing, RouteIssues, ViewContext } from './editing.ts'
import { changedBy, keptFields, readIssues, useDraft } from './editing.ts'
import { EntryList } from './entries.ts'
import { TryRequest, useExplain } from './preview.ts'
import { ChangeLines, DeleteRoute, DiscardDraft, PublishRoute } from './publish.ts'
import { PLAIN_FORM } from './sample.ts'
import { ShadowCard, ShadowSettings } from './shadow.ts'
import { verdictsOf } from './verdicts.ts'
import { members, RouteState, STRATEGY_WORDS } from './words.ts'

interface Loadable {
  readonly route: RouteAnswer
  readonly context: ViewContext
}

/** One route: loads it, and all that is needed to edit it. */
export function RoutePage({ workspace, name }: { readonly workspace: string; readonly name: string }) {
  const load = useLoad<Loadable>(
    async (signal) => {
      const place = apiPath`/workspaces/${workspace}`
      const [route, models, own] = await Promise.all([
        api.get<RouteAnswer>(place + apiPath`/routes/${name}`, { signal }),
        api.get<ModelsAnswer>(`${place}/models`, { signal }),
        api.get<WorkspaceAnswer>(place, { signal }),
      ])
      return { route, context: { models, workspace: own } }
    },
    [workspace, name],
  )
  const head = h(PageHead, { title: name, parent: { href: pathOf(workspace, 'routes'), label: 'Routes' } })
  if (load.state !== 'ready')
    return [
      head,
      h(Loaded<Loadable>, {
        load,
        what: `The route ${name}`,
        skeleton: h(Skeleton, { rows: 8, label: 'The route: loading' }),
        render: () => null,
      }),
    ]
  const { route, context } = load.value
  return h(RouteBuilder, { initial: route, context })
}

const History = lazy({
  title: 'The history',
  load: async () => (await import('./history.ts')).History,
})

type OpenDialog = 'publish' | 'discard' | 'delete'

/** The route builder: entries, preview, changes and history. */
function RouteBuilder(props: { readonly initial: RouteAnswer; readonly context: ViewContext }) {
  const { initial, context } = props
  const draft = useDraft(initial)
  const [query, setQuery] = useQuery()
  const [dialog, setDialog] = useState<OpenDialog | null>(null)
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
  return [
    h(Head, { draft, onDialog: setDialog }),
    readOnly
      ? h('div', { class: 'routes-state' }, h(ManagedByFile, { what: `the route ${known.name}` }))
      : h(DraftState, { draft }),
    h(WhyNotInForce, { issues: known.issues ?? [] }),
    h(
      Tabs,
      { label: 'Route sections', tabs: shown, chosen: tab, onChoose: setTab },
      h(
        'div',
        { class: tab === 'entries' ? 'routes-tab' : 'routes-tab routes-tab-off' },
        h(Building, { draft, context, readOnly }),
      ),
      tab === 'changes' ? h(Changes, { known, fields: draft.fields }) : null,
      tab === 'history' ? h(History, { known, onAnswer: draft.load, onConflict: draft.foundConflict }) : null,
    ),
    dialog === 'publish' ? h(PublishRoute, { draft, onClose: () => setDialog(null) }) : null,
    dialog === 'discard' ? h(DiscardDraft, { draft, onClose: () => setDialog(null) }) : null,
    dialog === 'delete' ? h(DeleteRoute, { known, onClose: () => setDialog(null) }) : null,
  ]
}

/** Explains why the published version is not in force: the file or another part no longer fits it. */
function WhyNotInForce({ issues }: { readonly issues: readonly string[] }) {
  if (issues.length === 0) return null
  return h(
    'div',
    { class: 'routes-state' },
    h(
      Note,
      { tone: 'bad' },
      h(
        'p',
        null,
        'The published version isn’t active. Fix it here and publish again, or fix what it refers to:',
      ),
      h(
        'ul',
        { class: 'issues' },
        issues.map((line) => h('li', { key: line }, line)),
      ),
    ),
  )
}

/** Name, state and actions of the route. */
function Head({
  draft,
  onDialog,
}: {
  readonly draft: Draft
  readonly onDialog: (dialog: OpenDialog) => void
}) {
  const { known } = draft.saving
  const { published } = known
  const readOnly = known.managed_by === 'file'
  const issueCount = known.draft?.issues.length ?? 0
  const unread = draft.editing.entries.some((entry) => Object.keys(entry.unread).length > 0)
  const hasChanges = known.draft !== null || draft.phase !== 'same'
  const mayPublish =
    hasChanges && draft.phase !== 'conflict' && !unread && !(draft.phase === 'same' && issueCount > 0)
  const badges = [
    h(RouteState, {
      version: published?.version ?? null,
      in_service: published !== null && published.fields.published !== false,
      has_draft: known.draft !== null,
      managed_by: known.managed_by,
      issues: known.issues,
    }),
    published === null || published.number === null
      ? null
      : h(
          'span',
          { class: 'small quiet', title: published.version, 'data-version': published.version },
          `v${published.number}`,
        ),
  ]
  const actions = readOnly
    ? null
    : [
        h(Button, {
          kind: 'danger',
          icon: 'trash',
          label: 'Delete route',
          onClick: () => onDialog('delete'),
        }),
        known.draft !== null && published !== null
          ? h(Button, { onClick: () => onDialog('discard') }, 'Discard draft')
          : null,
        h(Button, { kind: 'primary', onClick: () => onDialog('publish'), disabled: !mayPublish }, 'Publish…'),
      ]
  return h(PageHead, {
    title: known.name,
    parent: { href: pathOf(known.workspace, 'routes'), label: 'Routes' },
    badges,
    actions,
  })
}

/** The entries, with the preview of a request beside them. */
function Building(props: {
  readonly draft: Draft
  readonly context: ViewContext
  readonly readOnly: boolean
}) {
  const { draft, context, readOnly } = props
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
  const traffic = useTraffic(known)
  const verdicts = verdictsOf(answer ?? { entries: [] }, known.name, fields.entries, purpose)
  // The preview uses the screen's content, the draft its saved state.
  const lines = (phase === 'same' ? known.draft?.issues : answer?.issues) ?? []
  const issues = readIssues(lines, known.name)
  return h(
    'div',
    { class: 'main-aside routes-building' },
    h(
      'div',
      { class: 'stack stack-loose' },
      h(RouteSettings, { editing, edit, issues, models: context.models, readOnly }),
      h(EntryList, {
        editing,
        edit,
        issues,
        verdicts,
        context,
        route: known.name,
        health,
        traffic,
        readOnly,
      }),
      h(ShadowCard, { workspace: known.workspace, route: known.name, shadow: shadowName(known) }),
    ),
    h(TryRequest, {
      form,
      onChange: setForm,
      explanation,
      verdicts,
      strategy: editing.strategy,
      route: known,
      workspace: context.workspace,
      fields: asIs ? null : fields,
    }),
  )
}

const TRAFFIC_EVERY_MS = 30_000

/** Which entries served the route of late; null: it is not known yet, or was never published. */
function useTraffic({ workspace, name, published }: RouteAnswer): TrafficAnswer | null {
  const path = apiPath`/workspaces/${workspace}/routes/${name}/traffic`
  const load = useLoad(
    async (signal) => (published === null ? null : await api.get<TrafficAnswer>(path, { signal })),
    [path, published?.version],
    { everyMs: TRAFFIC_EVERY_MS },
  )
  return load.value
}

function shadowName({ published }: RouteAnswer): string | null {
  const entry = published?.fields.shadow?.entry
  return entry === undefined ? null : `${entry.provider}/${entry.model}`
}

interface RouteSettingsProps {
  readonly editing: Editing
  readonly edit: (edit: Edit) => void
  readonly issues: RouteIssues
  readonly models: ModelsAnswer
  readonly readOnly: boolean
}

/** Settings of the route as a whole. */
function RouteSettings(props: RouteSettingsProps) {
  const { editing, edit, issues, models, readOnly } = props
  const { strategy, published, rest } = editing
  return h(
    'div',
    { class: 'stack stack-tight' },
    issues.others.length > 0
      ? h(
          Note,
          { tone: 'bad' },
          h(
            'ul',
            { class: issues.others.length > 1 ? 'issues' : '' },
            issues.others.map((line) => h('li', { key: line }, line)),
          ),
        )
      : null,
    h(
      'div',
      { class: 'routes-settings' },
      h(Select<Strategy>, {
        label: 'Strategy',
        value: strategy,
        onChange: (value: Strategy) => edit({ do: 'strategy', strategy: value }),
        options: members(STRATEGY_WORDS).map((value) => ({ value, label: STRATEGY_WORDS[value].name })),
        hint: STRATEGY_WORDS[strategy]?.means,
        error: issues.fields.get('strategy')?.join(' ') ?? null,
        disabled: readOnly,
      }),
      h(Checkbox, {
        label: 'Live fallback',
        checked: editing.liveFallback === 'batch',
        onChange: (on: boolean) => edit({ do: 'live_fallback', liveFallback: on ? 'batch' : 'none' }),
        hint:
          editing.liveFallback === 'batch'
            ? 'If no live model is left, sessions go on in pieces at models for files.'
            : 'Sessions end if no live model is left.',
        disabled: readOnly,
      }),
      h(Checkbox, {
        label: 'Enabled',
        checked: published,
        onChange: (on: boolean) => edit({ do: 'published', published: on }),
        hint: published ? 'Apps can use this route.' : 'Requests from its apps fail.',
        disabled: readOnly,
      }),
      ...speechSettings(props),
      h(ShadowSettings, {
        shadow: rest.shadow,
        onChange: (shadow: RouteFields['shadow']) => edit({ do: 'shadow', shadow }),
        models,
        error: issues.fields.get('shadow')?.join(' ') ?? null,
        disabled: readOnly,
      }),
    ),
  )
}

/** How speech of its entries is converted, and recordings for them. */
function speechSettings({ editing: { rest }, edit, issues, readOnly }: RouteSettingsProps) {
  return [
    h(Checkbox, {
      label: 'Cache speech',
      checked: rest.cache !== undefined,
      onChange: (on: boolean) => edit({ do: 'cache', cache: on ? {} : undefined }),
      hint: issues.fields.get('cache')?.join(' ') ?? 'Same text, same voice: made once, then kept.',
      disabled: readOnly,
    }),
    ...FLAGS.map(({ name, label, hint }) =>
      h(Checkbox, {
        label,
        checked: rest[name] === true,
        onChange: (on: boolean) => edit({ do: 'flag', name, on }),
        hint: issues.fields.get(name)?.join(' ') ?? hint,
        disabled: readOnly,
      }),
    ),
  ]
}

const FLAGS = [
  { name: 'encode', label: 'Encode speech', hint: 'Makes mp3, opus and other formats out of wav.' },
  { name: 'skip_silence', label: 'Skip silence', hint: 'Leaves out long silence before transcribing.' },
  { name: 'transcode', label: 'Transcode audio', hint: 'Takes formats that no entry takes, by ffmpeg.' },
] as const

/** Says what is saved and what serves, and what to do if neither matches the screen. */
function DraftState({ draft }: { readonly draft: Draft }) {
  const { phase, saving } = draft
  const { known, conflict, failed } = saving
  const issueCount = known.draft?.issues.length ?? 0
  const isTroubled = phase === 'failed' || phase === 'conflict'
  return h(
    'div',
    { class: 'stack stack-tight routes-state' },
    h(
      'p',
      {
        class: `small routes-state-line${isTroubled ? ' routes-state-troubled' : ''}`,
        role: 'status',
        'data-phase': phase,
      },
      h(Words, { phase, known }),
    ),
    phase === 'same' && issueCount > 0
      ? h('p', { class: 'small routes-state-bad' }, 'Fix ', plural(issueCount, 'error'), ' to publish.')
      : null,
    failed !== null && phase === 'failed'
      ? h(
          'div',
          { class: 'stack stack-tight' },
          h(ErrorNote, { error: failed, what: 'Draft not saved' }),
          h('div', null, h(Button, { small: true, icon: 'refresh', onClick: draft.flush }, 'Save now')),
        )
      : null,
    conflict === null ? null : h(Conflict, { draft, theirs: conflict }),
  )
}

function Words({ phase, known }: { readonly phase: Draft['phase']; readonly known: RouteAnswer }) {
  const { draft, published } = known
  if (phase === 'unsaved' || phase === 'saving')
    return [h('span', { class: 'spin', 'aria-hidden': 'true' }), h('span', null, 'Saving the draft…')]
  if (phase === 'failed') return [h(Icon, { name: 'alert' }), h('span', null, 'Unsaved changes.')]
  if (phase === 'conflict')
    return [h(Icon, { name: 'alert' }), h('span', null, 'Someone else edited this draft.')]
  if (draft !== null)
    return [
      h(Icon, { name: 'check' }),
      h(
        'span',
        null,
        'Draft saved ',
        h(Time, { at: draft.saved_at }),
        ' by ',
        draft.saved_by,
        '.',
        published === null ? ' Not live until you publish.' : [' ', serving(published), ' is still live.'],
      ),
    ]
  if (published === null) return h('span', null, 'This route was removed.')
  return [
    h(Icon, { name: 'check' }),
    h(
      'span',
      null,
      serving(published),
      ' is live',
      published.published_at === null ? null : [', published ', h(Time, { at: published.published_at })],
      published.published_by === null ? null : ` by ${published.published_by}`,
      published.note === null ? null : [' (', h('span', { class: 'routes-note' }, published.note), ')'],
      '. ',
      known.apps.length === 0
        ? ['No app uses it yet. ', h('a', { href: pathOf(known.workspace, 'apps') }, 'Assign an app'), '.']
        : 'Changes are saved as a draft automatically.',
    ),
  ]
}

function serving({ number }: NonNullable<RouteAnswer['published']>): string {
  return number === null ? 'The file’s version' : `Version ${number}`
}

const DID = {
  saved: 'saved this draft',
  published: 'published this route',
  removed: 'removed this route',
} as const

/** Two people edited the route: shows both drafts, to choose one. */
function Conflict({ draft, theirs }: { readonly draft: Draft; readonly theirs: RouteAnswer }) {
  const [comparing, setComparing] = useState(false)
  const { name, at, did } = changedBy(theirs, draft.saving.known)
  const who = name ?? 'Someone'
  const mine = draft.fields
  return h(
    'div',
    { class: 'note note-warn', role: 'alert' },
    h(Icon, { name: 'alert' }),
    h(
      'div',
      { class: 'note-text stack stack-tight' },
      h(
        'p',
        null,
        who,
        ' ',
        DID[did],
        at === null ? null : [' ', h(Time, { at })],
        ' while you edited it. Your changes are on this screen only.',
      ),
      h(
        'div',
        { class: 'row' },
        h(Button, { small: true, onClick: () => setComparing(true) }, 'Compare'),
        h(Button, { small: true, onClick: () => draft.load(theirs) }, 'Use theirs'),
        h(Button, { small: true, onClick: draft.keepMine }, 'Overwrite with mine'),
      ),
    ),
    comparing
      ? h(
          Dialog,
          { title: 'Theirs and yours', wide: true, onClose: () => setComparing(false) },
          h(FieldsDiff, { before: keptFields(theirs), after: mine, names: [`Theirs (${who})`, 'Yours'] }),
        )
      : null,
  )
}

/** Loaded when it is first shown: few visits need it. */
const FieldsDiff = lazy({
  title: 'The comparison',
  load: async () => (await import('./diff.ts')).FieldsDiff,
})

/** The changes that publishing would make, in words and side by side. */
function Changes({ known, fields }: { readonly known: RouteAnswer; readonly fields: RouteFields }) {
  const { draft, published } = known
  const before =
    published === null ? 'Not published' : `Published, version ${published.number ?? 'of the file'}`
  if (draft === null && published !== null)
    return h(
      EmptyState,
      { title: 'No changes' },
      'The draft equals the live version. Changes you make are shown here.',
    )
  return h(
    'div',
    { class: 'stack stack-loose' },
    h(
      Section,
      { title: 'Summary' },
      h(ChangeLines, { changes: draft?.changes ?? [], isNew: published === null }),
    ),
    h(
      Section,
      { title: 'Side by side' },
      h(FieldsDiff, { before: published?.fields ?? null, after: fields, names: [before, 'Draft'] }),
    ),
  )
}
