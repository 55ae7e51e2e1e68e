import { useEffect, useRef, useState } from 'preact/hooks'
import type { Strategy } from '../../../../contracts/catalog.ts'
import type { RouteFields } from '../../../../gateway/catalog/file.ts'
import type { ExplainAnswer, ExplainedEntry, RouteAnswer } from '../../../server/answers/routes.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { type ApiError, api, toApiError } from '../../api.ts'

import { Button, Icon } from '../../components/button.ts'

import { BREAKER_WORDS } from '../../components/health.ts'
import { Section } from '../../components/page-head.ts'
import { ErrorNote } from '../../components/states.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import { apiPath } from '../../paths.ts'
import type { ImpactProps } from './impact.ts'
import { type ReadSample, readSample, SampleFields, type SampleForm } from './sample.ts'
import { leftWords, type Verdicts } from './verdicts.ts'

/** A sample request, and its outcome with the route on the screen. */
export function TryRequest(props: {
  readonly form: SampleForm
  readonly onChange: (form: SampleForm) => void
  readonly explanation: Explanation
  readonly verdicts: Verdicts
  readonly strategy: Strategy
  readonly route: RouteAnswer
  readonly workspace: WorkspaceAnswer
  /** The route as it is on the screen; null: as it is published. */
  readonly fields: RouteFields | null
}) {
  const { form, onChange, explanation, verdicts, strategy, route, workspace, fields } = props
  return h(
    'div',
    { class: 'routes-aside' },
    h(
      Section,
      { title: 'Try a request', lead: 'Shows which entry would handle the request. Nothing is sent.' },
      h(PreviewOutcome, { explanation, verdicts, route: route.name, strategy }),
      h(SampleFields, { form, onChange, issues: explanation.issues, route, workspace }),
    ),
    h(RecentRequests, { route, fields }),
  )
}

export const Impact = lazy<ImpactProps>({
  title: 'The comparison',
  load: async () => (await import('./impact.ts')).Impact,
})

/** Compares the draft with the live version by recent requests, on demand. */
function RecentRequests({
  route,
  fields,
}: {
  readonly route: RouteAnswer
  readonly fields: RouteFields | null
}) {
  const [comparing, setComparing] = useState(false)
  if (route.published === null || route.managed_by === 'file') return null
  return h(
    Section,
    {
      title: 'Recent requests',
      lead: 'Shows what up to 1,000 recorded requests of this route would have done with the draft. Nothing is sent.',
    },
    comparing
      ? h(Impact, { workspace: route.workspace, route: route.name, fields })
      : h(
          'div',
          { class: 'row' },
          h(Button, { onClick: () => setComparing(true), disabled: fields === null }, 'Compare with live'),
          fields === null ? h('span', { class: 'small quiet' }, 'Change the route first.') : null,
        ),
  )
}

function PreviewOutcome(props: {
  readonly explanation: Explanation
  readonly verdicts: Verdicts
  readonly route: string
  readonly strategy: Strategy
}) {
  const { explanation, verdicts, route, strategy } = props
  const { answer, error, busy, retry } = explanation
  if (error !== null)
    return h(
      'div',
      { class: 'routes-outcome' },
      h(ErrorNote, { error, what: 'No preview' }),
      h('div', null, h(Button, { small: true, icon: 'refresh', onClick: retry, busy }, 'Try again')),
    )
  const [first] = verdicts.order
  // The card of an entry of this route says why it is skipped.
  const left = answer?.entries.filter((row) => row.rank === null && row.route !== route) ?? []
  return h(
    'div',
    {
      class: `routes-outcome${busy ? ' routes-outcome-old' : ''}`,
      role: 'region',
      'aria-label': 'Preview result',
      tabindex: 0,
      'aria-busy': busy,
    },
    h(
      'div',
      { class: 'routes-outcome-head', role: 'status', 'data-outcome': outcomeName(explanation, first) },
      h(Headline, { explanation, first, route }),
    ),
    verdicts.order.length > 1
      ? [
          h(
            'p',
            { class: 'small' },
            h('span', { class: 'quiet' }, 'Fallbacks'),
            ' ',
            verdicts.order
              .slice(1)
              .map((row, index) => h('span', { key: index }, index > 0 ? ', ' : '', h(Name, { row, route }))),
          ),
          strategy === 'weighted'
            ? h(
                'p',
                { class: 'small quiet' },
                'One possible order. The next request may start with another entry.',
              )
            : null,
        ]
      : null,
    left.length === 0
      ? null
      : h(
          'ul',
          { class: 'routes-left small' },
          left.map((row, index) =>
            h(
              'li',
              { key: index },
              h(Name, { row, route }),
              h('span', { class: 'quiet' }, 'Skipped: ', leftWords(row)),
            ),
          ),
        ),
  )
}

function outcomeName({ answer }: Explanation, first: ExplainedEntry | undefined): string {
  if (answer === null) return 'unknown'
  if (answer.issues.length > 0) return 'faulty'
  if (first === undefined) return 'refused'
  return first.breaker === undefined ? 'served' : 'doubtful'
}

function Headline(props: {
  readonly explanation: Explanation
  readonly first: ExplainedEntry | undefined
  readonly route: string
}) {
  const { explanation, first, route } = props
  const { answer, issues } = explanation
  if (Object.keys(issues).length > 0)
    return [h(Icon, { name: 'alert' }), h('p', null, 'Fix the fields marked below.')]
  if (answer === null) return [h('span', { class: 'spin', 'aria-hidden': 'true' }), h('p', null, 'Checking…')]
  if (answer.issues.length > 0)
    return [
      h(Icon, { name: 'alert' }),
      h('p', null, 'Fix ', plural(answer.issues.length, 'error'), ' to publish.'),
    ]
  if (first !== undefined)
    return [
      h(Icon, { name: first.breaker === undefined ? 'check' : 'alert' }),
      h(
        'p',
        null,
        h('strong', null, h(Name, { row: first, route })),
        first.breaker === undefined ? ' is selected.' : ` would be tried; ${BREAKER_WORDS[first.breaker]}.`,
      ),
    ]
  if (answer.refusal === null) return [h(Icon, { name: 'alert' }), h('p', null, 'Add an entry first.')]
  return [
    h(Icon, { name: 'alert' }),
    h('p', null, 'Refused with ', h('code', null, answer.refusal.code), ': ', answer.refusal.message),
  ]
}

/** A row of another route names that, too. */
function Name({ row, route }: { readonly row: ExplainedEntry; readonly route: string }) {
  return [
    h('span', { class: 'mono' }, row.provider, '/', row.model),
    row.route === route ? null : [' ', h('span', { class: 'quiet small' }, '(route ', row.route, ')')],
  ]
}

const ASK_AFTER_MS = 250

interface Explanation {
  /** The last answer, which stays while the next one is on its way; null: there was none yet. */
  readonly answer: ExplainAnswer | null
  /** Purpose of the sample request; empty: none. */
  readonly purpose: string
  readonly error: ApiError | null
  readonly busy: boolean
  /** Fields of the form that cannot be read. */
  readonly issues: NonNullable<ReadSample['issues']>
  readonly retry: () => void
}

/**
 * Asks what a route would do with a sample request, shortly after each change of either.
 *
 * @param fields the route as it is on the screen; null: as it is published
 */
export function useExplain(
  { workspace, route, fields }: { workspace: string; route: string; fields: RouteFields | null },
  form: SampleForm,
): Explanation {
  const [known, setKnown] = useState<{
    answer: ExplainAnswer | null
    purpose: string
    error: ApiError | null
  }>({ answer: null, purpose: '', error: null })
  const [busy, setBusy] = useState(true)
  const [turn, setTurn] = useState(0)
  const first = useRef(true)
  const { sample, issues } = readSample(form)
  const { endpoint, app, purpose } = form
  const body = sample && {
    endpoint,
    sample,
    route,
    ...(fields ? { fields } : {}),
    ...(app === '' ? {} : { app }),
  }
  const asked = body === null ? null : JSON.stringify(body)

  useEffect(() => {
    if (body === null) return
    const abort = new AbortController()
    setBusy(true)
    const ask = async () => {
      try {
        const path = apiPath`/workspaces/${workspace}/explain`
        const answer = await api.post<ExplainAnswer>(path, body, { signal: abort.signal })
        if (!abort.signal.aborted) setKnown({ answer, purpose, error: null })
      } catch (thrown) {
        if (!abort.signal.aborted) setKnown((old) => ({ ...old, error: toApiError(thrown) }))
      }
      if (!abort.signal.aborted) setBusy(false)
    }
    const timer = setTimeout(ask, first.current ? 0 : ASK_AFTER_MS)
    first.current = false
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [workspace, asked, turn])

  return {
    ...known,
    busy: busy && body !== null,
    issues: issues ?? {},
    retry: () => setTurn((old) => old + 1),
  }
}
