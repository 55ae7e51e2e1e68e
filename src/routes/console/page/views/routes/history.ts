import { useState } from 'preact/hooks'
import type { RouteAnswer, VersionAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { type ApiError, toApiError } from '../../api-error.ts'
import { html } from '../../html.ts'
import { useAction, useLoad } from '../../load.ts'
import { Badge } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { Code } from '../../parts/code.ts'
import { Confirm, Dialog } from '../../parts/dialog.ts'
import { EmptyState, Fault, Loaded, Note } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { FieldsDiff } from './fields-diff.ts'
import { routeText } from './route-text.ts'

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
  const [looking, setLooking] = useState<VersionAnswer | null>(null)
  const [rolling, setRolling] = useState<VersionAnswer | null>(null)
  const older = useAction(async () => {
    if (load.state !== 'ready') return
    load.set([...load.value, ...(await ask(load.value.at(-1)?.number ?? null))])
  })
  return html`<div class="stack">
    <${Loaded}
      load=${load}
      what="The versions"
      render=${(versions: readonly VersionAnswer[]) =>
        versions.length === 0
          ? html`<${EmptyState} title="Never published">Published versions are kept here.<//>`
          : html`<${Table}
                caption="Versions"
                columns=${columnsOf(setLooking, setRolling)}
                rows=${versions}
                rowKey=${({ number }: VersionAnswer) => String(number)}
              />
              ${
                (versions.at(-1)?.number ?? 1) > 1
                  ? html`<div><${Button} onClick=${older.run} busy=${older.busy}>Older versions<//></div>`
                  : null
              }
              <${Fault} error=${older.error} />`}
    />
    ${looking === null ? null : html`<${Look} version=${looking} known=${known} onClose=${() => setLooking(null)} />`}
    ${
      rolling === null
        ? null
        : html`<${RollBack}
            version=${rolling}
            known=${known}
            onAnswer=${onAnswer}
            onConflict=${onConflict}
            onClose=${() => setRolling(null)}
          />`
    }
  </div>`
}

function columnsOf(
  look: (version: VersionAnswer) => void,
  rollBack: (version: VersionAnswer) => void,
): readonly Column<VersionAnswer>[] {
  return [
    {
      head: 'Version',
      primary: true,
      cell: ({ number, current }) =>
        html`<span>Version ${number}</span>${current ? html`<${Badge} tone="ok">live<//>` : null}`,
    },
    {
      head: 'Version ID',
      cell: ({ version, hash }) => html`<span class="mono small" title=${hash}>${version ?? '–'}</span>`,
    },
    {
      head: 'Published',
      cell: ({ published_at, published_by }) =>
        html`<span><${Time} at=${published_at} /> by ${published_by}</span>`,
    },
    { head: 'Note', cell: ({ note }) => note ?? html`<span class="quiet">–</span>` },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      cell: (version) => html`
        <${Button}
          small
          label=${`View version ${version.number}`}
          onClick=${() => look(version)}
        >View<//>
        ${
          version.current
            ? null
            : html`<${Button}
                small
                label=${`Roll back to version ${version.number}`}
                onClick=${() => rollBack(version)}
              >Roll back<//>`
        }
      `,
    },
  ]
}

function Look(props: {
  readonly version: VersionAnswer
  readonly known: RouteAnswer
  readonly onClose: () => void
}) {
  const { version, known, onClose } = props
  return html`<${Dialog} title=${`Version ${version.number} of ${known.name}`} wide onClose=${onClose}>
    <div class="stack">
      <p class="small quiet">
        Published <${Time} at=${version.published_at} exact /> by ${version.published_by}${
          version.note === null ? '' : `: ${version.note}`
        }.
      </p>
      <${Code} title="Route" text=${routeText(version.fields)} tall />
      ${
        version.current || known.published === null
          ? null
          : html`<h3>Compared with live</h3>
              <${FieldsDiff}
                before=${known.published.fields}
                after=${version.fields}
                names=${[`Version ${known.published.number ?? ''}, live`, `Version ${version.number}`]}
              />`
      }
    </div>
  <//>`
}

function RollBack(props: HistoryProps & { readonly version: VersionAnswer; readonly onClose: () => void }) {
  const { version, known, onAnswer, onConflict, onClose } = props
  const { published, draft, apps, name } = known
  const number = published?.number ?? 0
  const rollBack = async () => {
    const path = apiPath`/workspaces/${known.workspace}/routes/${name}/rollback`
    try {
      const answer = await api.post<RouteAnswer>(path, { number: version.number })
      onAnswer(answer)
      toast(
        `${name} rolled back to version ${version.number} (published as version ${answer.published?.number ?? ''})`,
      )
    } catch (thrown) {
      if (!(await onConflict(toApiError(thrown)))) throw thrown
    }
  }
  return html`<${Confirm}
    title=${`Roll ${name} back to version ${version.number}?`}
    action=${`Roll back to version ${version.number}`}
    danger=${false}
    onConfirm=${rollBack}
    onClose=${onClose}
  >
    <div class="stack">
      <p>
        ${`Publishes version ${version.number}’s content as version ${number + 1}, replacing version ${number}. `}
        ${apps.length === 0 ? 'No app uses it.' : `Affects: ${apps.join(', ')}.`}
      </p>
      ${
        draft === null
          ? null
          : html`<${Note} tone="warn">
              The draft that ${draft.saved_by} saved <${Time} at=${draft.saved_at} /> is discarded.
            <//>`
      }
      <${FieldsDiff}
        before=${published?.fields ?? null}
        after=${version.fields}
        names=${[`Version ${published?.number ?? '–'}, live`, `Version ${version.number}`]}
      />
    </div>
  <//>`
}
