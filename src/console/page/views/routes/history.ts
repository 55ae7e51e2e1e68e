import { useEffect, useState } from 'preact/hooks'
import type { RouteAnswer, VersionAnswer } from '../../../server/answers/routes.ts'
import { type ApiError, api, toApiError } from '../../api.ts'

import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Code } from '../../components/copy.ts'
import { Confirm, Dialog } from '../../components/dialog.ts'
import { EmptyState, ErrorNote, Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { toast } from '../../components/toasts.ts'
import { h } from '../../h.ts'
import { useAction, useLoad } from '../../load.ts'
import { apiPath } from '../../paths.ts'
import { useQuery } from '../../router.ts'
import { FieldsDiff, routeText } from './diff.ts'

interface HistoryProps {
  readonly known: RouteAnswer
  readonly onAnswer: (answer: RouteAnswer) => void
  readonly onConflict: (error: ApiError) => Promise<boolean>
}

/** The versions of a route, newest first: looked at, and put in force again. */
export function History({ known, onAnswer, onConflict }: HistoryProps) {
  const place = apiPath`/workspaces/${known.workspace}/routes/${known.name}`
  const ask = async (below: number | null, signal?: AbortSignal) => {
    const query = below === null ? '' : `?below=${below}`
    const path = `${place}/versions${query}`
    return (await api.get<{ versions: readonly VersionAnswer[] }>(path, signal ? { signal } : {})).versions
  }
  const load = useLoad((signal) => ask(null, signal), [place, known.published?.version])
  const [query, setQuery] = useQuery()
  const wanted = query.get('hash')
  const [chosen, setLooking] = useState<VersionAnswer | null>(null)
  const linked = load.value?.find(({ hash }) => hash === wanted) ?? null
  const looking = chosen ?? linked
  const stopLooking = () => {
    setLooking(null)
    if (wanted !== null) setQuery({ hash: null })
  }
  const [rolling, setRolling] = useState<VersionAnswer | null>(null)
  const older = useAction(async () => {
    if (load.state !== 'ready') return
    load.set([...load.value, ...(await ask(load.value.at(-1)?.number ?? null))])
  })
  // A link may lead to a version of long ago.
  useEffect(() => {
    if (wanted === null || linked !== null || load.state !== 'ready') return
    if ((load.value.at(-1)?.number ?? 1) > 1) older.run()
    else setQuery({ hash: null })
  }, [wanted, load.value])
  return h(
    'div',
    { class: 'stack' },
    h(Loaded<readonly VersionAnswer[]>, {
      load,
      what: 'The versions',
      render: (versions: readonly VersionAnswer[]) =>
        versions.length === 0
          ? h(EmptyState, { title: 'Never published' }, 'Published versions are kept here.')
          : [
              h(Table<VersionAnswer>, {
                caption: 'Versions',
                columns: versionColumns(setLooking, setRolling),
                rows: versions,
                rowKey: ({ number }: VersionAnswer) => String(number),
              }),
              (versions.at(-1)?.number ?? 1) > 1
                ? h('div', null, h(Button, { onClick: older.run, busy: older.busy }, 'Older versions'))
                : null,
              h(ErrorNote, { error: older.error }),
            ],
    }),
    looking === null ? null : h(Look, { version: looking, known, ask, onClose: stopLooking }),
    rolling === null
      ? null
      : h(RollBack, { version: rolling, known, onAnswer, onConflict, onClose: () => setRolling(null) }),
  )
}

function versionColumns(
  look: (version: VersionAnswer) => void,
  rollBack: (version: VersionAnswer) => void,
): readonly Column<VersionAnswer>[] {
  return [
    {
      head: 'Version',
      primary: true,
      cell: ({ number, version, hash, current }) => [
        h('span', { title: version ?? hash }, 'Version ', number),
        current ? h(Badge, { tone: 'ok' }, 'live') : null,
      ],
    },
    {
      head: 'Published',
      cell: ({ published_at, published_by }) =>
        h('span', null, h(Time, { at: published_at }), ' by ', published_by),
    },
    {
      head: 'Note',
      cell: ({ note }) =>
        note === null ? h('span', { class: 'quiet' }, '–') : h('span', { class: 'routes-note' }, note),
    },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      cell: (version) => [
        h(
          Button,
          { small: true, label: `View version ${version.number}`, onClick: () => look(version) },
          'View',
        ),
        version.current
          ? null
          : h(
              Button,
              {
                small: true,
                label: `Roll back to version ${version.number}`,
                onClick: () => rollBack(version),
              },
              'Roll back',
            ),
      ],
    },
  ]
}

function Look(props: {
  readonly version: VersionAnswer
  readonly known: RouteAnswer
  readonly ask: (below: number | null, signal?: AbortSignal) => Promise<readonly VersionAnswer[]>
  readonly onClose: () => void
}) {
  const { version, known, ask, onClose } = props
  const before = useLoad(
    async (signal) => ({ version: (await ask(version.number, signal))[0] ?? null }),
    [known.name, version.number],
  )
  return h(
    Dialog,
    { title: `Version ${version.number} of ${known.name}`, wide: true, onClose },
    h(
      'div',
      { class: 'stack' },
      h(
        'p',
        { class: 'small quiet' },
        'Published ',
        h(Time, { at: version.published_at, exact: true }),
        ' by ',
        version.published_by,
        version.note === null ? '' : `: ${version.note}`,
        '.',
      ),
      h(Loaded<{ readonly version: VersionAnswer | null }>, {
        load: before,
        what: 'The version before',
        rows: 3,
        render: ({ version: older }: { readonly version: VersionAnswer | null }) => [
          h('h3', null, older === null ? 'First version' : `Changes from version ${older.number}`),
          h(FieldsDiff, {
            before: older?.fields ?? null,
            after: version.fields,
            names: [older === null ? 'Nothing' : `Version ${older.number}`, `Version ${version.number}`],
          }),
        ],
      }),
      h(
        'details',
        { class: 'more' },
        h('summary', null, 'Whole route'),
        h(Code, { title: 'Route', text: routeText(version.fields), tall: true }),
      ),
      version.current || known.published === null
        ? null
        : [
            h('h3', null, 'Compared with live'),
            h(FieldsDiff, {
              before: known.published.fields,
              after: version.fields,
              names: [`Version ${known.published.number ?? ''}, live`, `Version ${version.number}`],
            }),
          ],
    ),
  )
}

function RollBack(props: HistoryProps & { readonly version: VersionAnswer; readonly onClose: () => void }) {
  const { version, known, onAnswer, onConflict, onClose } = props
  const { published, draft, apps, name } = known
  const number = published?.number ?? 0
  const rollBack = async () => {
    const path = apiPath`/workspaces/${known.workspace}/routes/${name}/rollback`
    try {
      const seen = { number: version.number, replaces: published?.number ?? null }
      const answer = await api.post<RouteAnswer>(path, seen)
      onAnswer(answer)
      toast(
        `${name} rolled back to version ${version.number} (published as version ${answer.published?.number ?? ''})`,
      )
    } catch (thrown) {
      if (!(await onConflict(toApiError(thrown)))) throw thrown
    }
  }
  return h(
    Confirm,
    {
      title: `Roll ${name} back to version ${version.number}?`,
      action: `Roll back to version ${version.number}`,
      danger: false,
      onConfirm: rollBack,
      onClose,
    },
    h(
      'div',
      { class: 'stack' },
      h(
        'p',
        null,
        `Publishes version ${version.number}’s content as version ${number + 1}, replacing version ${number}. `,
        apps.length === 0 ? 'No app uses it.' : `Affects: ${apps.join(', ')}.`,
      ),
      draft === null
        ? null
        : h(
            Note,
            { tone: 'warn' },
            'The draft that ',
            draft.saved_by,
            ' saved ',
            h(Time, { at: draft.saved_at }),
            ' stays. Publishing it would undo this roll-back.',
          ),
      h(FieldsDiff, {
        before: published?.fields ?? null,
        after: version.fields,
        names: [`Version ${published?.number ?? '–'}, live`, `Version ${version.number}`],
      }),
    ),
  )
}
