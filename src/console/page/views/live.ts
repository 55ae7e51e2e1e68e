import { useState } from 'preact/hooks'
import type { LiveSessionAnswer, LiveSessionsAnswer } from '../../server/answers/live.ts'
import { api } from '../api.ts'
import { LinkButton } from '../components/button.ts'
import { Confirm } from '../components/dialog.ts'
import { PageHead } from '../components/page-head.ts'
import { EmptyState, Loaded } from '../components/states.ts'
import { type Column, endColumn, Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { toast } from '../components/toasts.ts'
import { number, orNone, usd } from '../format.ts'
import { h } from '../h.ts'
import { type Load, useLoad } from '../load.ts'
import { apiPath, pathOf, queryOf } from '../paths.ts'
import type { ViewProps } from '../view.ts'
import { clockTime } from './playground/transcript.ts'

/** How often the list is read. */
const EVERY_MS = 2_000

/** Live sessions that are open, newest first; of all workspaces when none is given. */
export function LiveView({ workspace }: ViewProps) {
  const load = useLoad(
    (signal) => api.get<LiveSessionsAnswer>(`/live${queryOf({ workspace })}`, { signal }),
    [workspace],
    { everyMs: EVERY_MS },
  )
  return [
    h(PageHead, {
      title: 'Live sessions',
      lead: 'Live transcription and speech that are open now. Requests lists sessions that have ended.',
    }),
    h(Loaded<LiveSessionsAnswer>, {
      load,
      what: 'The live sessions',
      rows: 4,
      render: (answer: LiveSessionsAnswer) =>
        answer.sessions.length === 0
          ? h(
              EmptyState,
              {
                title: 'No open sessions',
                action:
                  workspace === null
                    ? undefined
                    : h(
                        LinkButton,
                        { href: `${pathOf(workspace, 'playground')}?tab=live` },
                        'Open the playground',
                      ),
              },
              'Sessions of GET /v1/transcription/stream and GET /v1/speech/stream, and uploads with ' +
                'mode=realtime, are listed while they are open.',
            )
          : h(Sessions, { workspace, answer, load }),
    }),
  ]
}

function Sessions(props: {
  readonly workspace: string | null
  readonly answer: LiveSessionsAnswer
  readonly load: Load<LiveSessionsAnswer>
}) {
  const { workspace, answer, load } = props
  const [ending, setEnding] = useState<LiveSessionAnswer | null>(null)
  const end = async (one: LiveSessionAnswer) => {
    await api.post(apiPath`/workspaces/${one.workspace}/live/${one.id}/end`)
    toast('Session ended')
    load.reload()
  }
  return h(
    'div',
    { class: 'stack' },
    h(Table<LiveSessionAnswer>, {
      caption: 'Live sessions',
      columns: [
        ...columnsFor(workspace, answer.sessions),
        endColumn((one: LiveSessionAnswer) => `End the session of ${keyWords(one)}`, setEnding),
      ],
      rows: answer.sessions,
      rowKey: ({ id }: LiveSessionAnswer) => id,
    }),
    answer.is_cut ? h('p', { class: 'quiet small' }, 'More are open than are listed.') : null,
    ending === null
      ? null
      : h(
          Confirm,
          {
            title: `End the session of ${keyWords(ending)}?`,
            action: 'End session',
            onConfirm: () => end(ending),
            onClose: () => setEnding(null),
          },
          h(
            'p',
            null,
            ending.kind === 'speech'
              ? 'Text sent so far is still spoken and billed. The client is told, then disconnected.'
              : 'Audio sent so far is still transcribed and billed. The client is told, then disconnected.',
          ),
        ),
  )
}

function keyWords({ key_name: name, key_id: id }: LiveSessionAnswer): string {
  return name ?? id
}

const KEY: Column<LiveSessionAnswer> = {
  head: 'Key',
  primary: true,
  cell: (one) => h('span', { title: one.key_id }, keyWords(one)),
}

const WORKSPACE: Column<LiveSessionAnswer> = { head: 'Workspace', cell: ({ workspace }) => workspace }

const FACTS: readonly Column<LiveSessionAnswer>[] = [
  { head: 'App', cell: ({ app }) => app },
  { head: 'Route', cell: ({ route }) => h('span', { class: 'mono' }, route ?? '–') },
  {
    head: 'Model',
    cell: ({ entry, kind }) =>
      entry === null
        ? h('span', { class: 'quiet' }, kind === 'speech' ? 'waiting for text' : 'connecting')
        : h('span', { class: 'mono' }, entry.provider, '/', entry.model),
  },
  {
    head: 'Amount',
    align: 'end',
    cell: ({ audio_seconds: seconds, characters }) =>
      seconds === null ? `${number(characters ?? 0)} characters` : clockTime(seconds),
  },
  { head: 'Switches', align: 'end', cell: ({ switches }) => number(switches) },
  { head: 'Cost', align: 'end', cell: ({ cost_usd: cost }) => orNone(cost, usd) },
  { head: 'Began', align: 'end', cell: ({ started_at: at }) => h(Time, { at }) },
]

const NODE: Column<LiveSessionAnswer> = {
  head: 'Node',
  minor: true,
  cell: ({ node }) => h('span', { class: 'mono' }, node),
}

function columnsFor(workspace: string | null, sessions: readonly LiveSessionAnswer[]) {
  const hasOthers = new Set(sessions.map(({ node }) => node)).size > 1
  return [KEY, ...(workspace === null ? [WORKSPACE] : []), ...FACTS, ...(hasOthers ? [NODE] : [])]
}
