import { useState } from 'preact/hooks'
import type { ListedSession } from '../../server/answers/access.ts'
import { api } from '../api.ts'
import { Badge } from '../components/badge.ts'
import { Button } from '../components/button.ts'
import { Confirm } from '../components/dialog.ts'
import { PageHead } from '../components/page-head.ts'
import { EmptyState, Loaded } from '../components/states.ts'
import { type Column, endColumn, Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { toast } from '../components/toasts.ts'
import { h } from '../h.ts'
import { useLoad } from '../load.ts'
import { apiPath } from '../paths.ts'
import type { ViewProps } from '../view.ts'

interface Answer {
  readonly sessions: readonly ListedSession[]
}

const COLUMNS: readonly Column<ListedSession>[] = [
  {
    head: 'Who',
    primary: true,
    cell: (one) => [
      h('span', { title: one.person?.subject ?? one.key?.id }, sessionName(one)),
      one.current ? h(Badge, { tone: 'accent' }, 'this one') : null,
    ],
  },
  { head: 'Signed in with', cell: ({ person }) => (person === null ? 'API key' : 'single sign-on') },
  {
    head: 'Role',
    cell: ({ role, workspaces }) =>
      role === null
        ? h('span', { class: 'quiet' }, 'none any more')
        : [role, workspaces.length === 0 ? null : h('span', { class: 'quiet' }, workspaces.join(', '))],
  },
  {
    head: 'From',
    cell: ({ address, browser }) =>
      address === null && browser === null
        ? h('span', { class: 'quiet' }, 'not known')
        : [browser, address === null ? null : h('span', { class: 'mono small quiet' }, address)],
  },
  { head: 'Signed in', cell: ({ began_at: at }) => h(Time, { at }) },
  { head: 'Last request', cell: ({ seen_at: at }) => h(Time, { at }) },
  { head: 'Expires', cell: ({ expires_at: at }) => h(Time, { at }) },
]

/** Sessions of the console that go on: everybody's for operators, else one's own. */
export function SessionsView({ session }: ViewProps) {
  const load = useLoad((signal) => api.get<Answer>('/sessions', { signal }), [])
  const [ending, setEnding] = useState<ListedSession | null>(null)
  const isOperator = session.role === 'operator'
  const end = async (one: ListedSession) => {
    await api.delete(apiPath`/sessions/${one.id}`)
    toast('Session ended')
    load.reload()
  }
  return [
    h(PageHead, {
      title: 'Sessions',
      lead: isOperator ? 'Who is signed in to the console, and since when.' : 'Where you are signed in.',
      actions: h(Button, { icon: 'refresh', onClick: load.reload, busy: load.busy }, 'Refresh'),
    }),
    h(Loaded<Answer>, {
      load,
      what: 'The sessions',
      rows: 4,
      render: ({ sessions }: Answer) =>
        sessions.length === 0
          ? h(EmptyState, { title: 'No sessions' }, h('p', null, 'Everyone has signed out.'))
          : h(Table<ListedSession>, {
              caption: 'Sessions of the console',
              columns: [
                ...COLUMNS,
                endColumn(
                  (one: ListedSession) =>
                    one.current ? 'Sign out of this session' : `Sign out ${sessionName(one)}`,
                  setEnding,
                  'Sign out',
                ),
              ],
              rows: sessions,
              rowKey: ({ id }: ListedSession) => id,
            }),
    }),
    ending === null
      ? null
      : h(
          Confirm,
          {
            title: ending.current ? 'End this session?' : `End the session of ${sessionName(ending)}?`,
            action: 'End session',
            onConfirm: () => end(ending),
            onClose: () => setEnding(null),
          },
          h(
            'p',
            null,
            'It ends at once on every node. Whoever has it can sign in again while their role lasts.',
          ),
        ),
  ]
}

function sessionName({ person, key }: ListedSession): string {
  return person?.name ?? key?.name ?? 'a key that is gone'
}
