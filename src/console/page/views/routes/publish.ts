import { useEffect, useState } from 'preact/hooks'
import type { RouteAnswer } from '../../../server/answers/routes.ts'
import { api, toApiError } from '../../api.ts'

import { Button, LinkButton } from '../../components/button.ts'
import { Confirm, Dialog, FormDialog } from '../../components/dialog.ts'
import { TextInput } from '../../components/field.ts'
import { type FactItems, Facts } from '../../components/page-head.ts'
import { Spinner } from '../../components/progress.ts'
import { Note } from '../../components/states.ts'
import { toast } from '../../components/toasts.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { useAction } from '../../load.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import type { Draft } from './editing.ts'
import { Impact } from './preview.ts'

/** Shows what publishing would change, and for whom; then publishes. Unsaved changes are saved first. */
export function PublishRoute({ draft, onClose }: { readonly draft: Draft; readonly onClose: () => void }) {
  const [route, setRoute] = useState<RouteAnswer | null>(null)
  const [note, setNote] = useState('')
  useEffect(() => {
    draft.flush().then((answer) => (answer === null ? onClose() : setRoute(answer)))
  }, [])
  const { run, busy, error } = useAction(async () => {
    if (route === null) return
    try {
      await publish(route, note, draft)
    } catch (thrown) {
      if (!(await draft.foundConflict(toApiError(thrown)))) throw thrown
    }
    onClose()
  })
  const issues = route?.draft?.issues ?? []
  const ready = route?.draft != null && issues.length === 0
  return h(
    FormDialog,
    {
      title: `Publish ${draft.saving.known.name}`,
      action: 'Publish',
      wide: true,
      onSubmit: () => run(),
      onClose,
      busy,
      error,
      what: 'Not published',
      disabled: !ready,
    },
    h(
      'div',
      { class: 'stack routes-publish' },
      route === null ? h(Spinner, { label: 'Saving the draft' }) : h(Summary, { route }),
      ready
        ? h(TextInput, {
            label: 'Note',
            optional: true,
            hint: 'Why you publish this. Shown in the history and the audit log.',
            value: note,
            onInput: setNote,
            maxLength: 500,
          })
        : null,
      issues.length > 0
        ? h(
            Note,
            { tone: 'bad' },
            h('p', null, 'Fix these errors to publish:'),
            h(
              'ul',
              { class: 'issues' },
              issues.map((issue) => h('li', { key: issue }, issue)),
            ),
          )
        : null,
    ),
  )
}

function Summary({ route }: { readonly route: RouteAnswer }) {
  const { published, draft, apps } = route
  const number = published?.number ?? null
  const from = published === null ? 'nothing' : (number ?? 'the file')
  const servedBefore = published !== null && published.fields.published !== false
  const goesOut = servedBefore && draft?.fields.published === false
  const items: FactItems = [
    [
      'Version',
      h(
        'span',
        { title: `${published?.version ?? '–'} → ${draft?.version ?? '–'}` },
        from,
        ' → ',
        (number ?? 0) + 1,
      ),
    ],
    ['Used by', apps.length === 0 ? h('span', { class: 'quiet' }, 'No app yet') : apps.join(', ')],
  ]
  return [
    h(Facts, { items }),
    h(
      'div',
      { class: 'stack stack-tight' },
      h('h3', null, 'Changes'),
      h(ChangeLines, { changes: draft?.changes ?? [], isNew: published === null }),
    ),
    published === null || draft === null || draft.issues.length > 0
      ? null
      : h(
          'div',
          { class: 'stack stack-tight' },
          h('h3', null, 'Recent requests'),
          h(Impact, { workspace: route.workspace, route: route.name, fields: null }),
        ),
    goesOut
      ? h(
          Note,
          { tone: 'warn' },
          'This disables the route: ',
          apps.length === 0 ? 'no app uses it now.' : `requests from ${apps.join(', ')} will fail.`,
        )
      : null,
    h(
      'p',
      { class: 'small quiet' },
      'Active on all nodes within 5 s. In-flight requests finish on the old version.',
    ),
  ]
}

async function publish(route: RouteAnswer, note: string, draft: Draft): Promise<void> {
  const path = apiPath`/workspaces/${route.workspace}/routes/${route.name}/publish`
  const said = note.trim() === '' ? {} : { note: note.trim() }
  const { draft: kept, published } = route
  const seen = { revision: kept?.revision ?? null, number: published?.number ?? null }
  const answer = await api.post<RouteAnswer>(path, { ...seen, ...said })
  draft.load(answer)
  const number = answer.published?.number
  toast(`${route.name} published${number == null ? '' : ` as version ${number}`}`)
}

/** Deletes a route that no app uses. */
export function DeleteRoute({
  known,
  onClose,
}: {
  readonly known: RouteAnswer
  readonly onClose: () => void
}) {
  const { name, workspace, apps, published } = known
  if (apps.length > 0)
    return h(
      Dialog,
      {
        title: `${name} is in use`,
        onClose,
        footer: [
          h(Button, { onClick: onClose }, 'Close'),
          h(LinkButton, { href: pathOf(workspace, 'apps'), kind: 'primary' }, 'Go to apps'),
        ],
      },
      h(
        'p',
        null,
        `${plural(apps.length, 'app')} ${apps.length === 1 ? 'uses' : 'use'} it: ${apps.join(', ')}. `,
        `Assign ${apps.length === 1 ? 'it' : 'them'} another route first.`,
      ),
    )
  const remove = async () => {
    await api.delete(apiPath`/workspaces/${workspace}/routes/${name}`)
    toast(`Route ${name} deleted`)
    navigate(pathOf(workspace, 'routes'))
  }
  return h(
    Confirm,
    {
      title: `Delete the route ${name}?`,
      action: 'Delete route',
      onConfirm: remove,
      onClose,
      typed: published === null ? undefined : name,
    },
    h(
      'p',
      null,
      published === null
        ? 'Never published. Its draft will be deleted.'
        : `Version ${published.number ?? ''} and any draft will be deleted. No app uses it.`,
    ),
  )
}

/** Drops the draft: the screen shows the published route again. */
export function DiscardDraft({ draft, onClose }: { readonly draft: Draft; readonly onClose: () => void }) {
  const { known } = draft.saving
  const discard = async () => {
    const saved = await draft.flush()
    // The screen shows whose draft it is instead.
    if (saved === null) return
    const path = apiPath`/workspaces/${known.workspace}/routes/${known.name}/draft`
    const revision = saved.draft === null ? '' : `?revision=${saved.draft.revision}`
    draft.load(await api.delete<RouteAnswer>(path + revision))
    toast(`Draft of ${known.name} discarded`)
  }
  const count = known.draft?.changes.length ?? 0
  return h(
    Confirm,
    { title: `Discard the draft of ${known.name}?`, action: 'Discard draft', onConfirm: discard, onClose },
    h(
      'p',
      null,
      count === 0 ? 'The draft' : plural(count, 'change'),
      known.draft === null ? '' : `, last saved by ${known.draft.saved_by},`,
      ` ${count > 1 ? 'are' : 'is'} lost. Version ${known.published?.number ?? ''} continues to serve.`,
    ),
  )
}

/** The lines of a difference. */
export function ChangeLines({
  changes,
  isNew,
}: {
  readonly changes: readonly string[]
  readonly isNew: boolean
}) {
  if (changes.length > 0)
    return h(
      'ul',
      { class: 'routes-changes' },
      changes.map((line) => h('li', { key: line }, line)),
    )
  return h(
    'p',
    { class: 'quiet' },
    isNew ? 'Never published: everything is new.' : 'Nothing that affects requests.',
  )
}
