import type { RouteFields } from '../../../../gateway/catalog/file.ts'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import type { ShadowAnswer, ShadowPairAnswer } from '../../../server/answers/routes.ts'
import { api } from '../../api.ts'
import { Select } from '../../components/field.ts'
import { Facts, Section } from '../../components/page-head.ts'
import { milliseconds, number, orNone, percent, plural, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath } from '../../paths.ts'
import { choicesOf, matching } from './words.ts'

const EVERY_MS = 30_000

const NO_SHADOW = ''
/** Shares that are offered; another one that is set is offered beside them. */
const SHARES = [0.01, 0.05, 0.2, 1]
const SHARE = 0.05

/** The model that answers beside the route's, to be compared with it, and how many of the calls it gets. */
export function ShadowSettings(props: {
  readonly shadow: RouteFields['shadow']
  readonly onChange: (shadow: RouteFields['shadow']) => void
  readonly models: ModelsAnswer
  readonly error: string | null
  readonly disabled: boolean
}) {
  const { shadow, onChange, models, error, disabled } = props
  const choices = matching(choicesOf(models), '', 'audio_input')
  const current = shadow === undefined ? NO_SHADOW : `${shadow.entry.provider}/${shadow.entry.model}`
  const isOffered = shadow === undefined || choices.some(({ id }) => id === current)
  const shares = [...new Set([...SHARES, shadow?.share ?? SHARE])].toSorted((a, b) => a - b)
  const choose = (id: string) => {
    if (id === NO_SHADOW) return onChange(undefined)
    const chosen = choices.find((one) => one.id === id)
    if (chosen === undefined) return
    const entry = { provider: chosen.provider.name, model: chosen.model.model }
    onChange({ share: SHARE, ...shadow, entry })
  }
  return [
    h(Select<string>, {
      label: 'Shadow',
      value: current,
      onChange: choose,
      options: [
        { value: NO_SHADOW, label: 'None' },
        ...(isOffered ? [] : [{ value: current, label: current }]),
        ...choices.map(({ id }) => ({ value: id, label: id })),
      ],
      hint: 'Also receives the request, so that you can compare transcripts. Callers never see it.',
      error,
      disabled,
    }),
    shadow === undefined
      ? null
      : h(Select<string>, {
          label: 'Share of the calls',
          value: String(shadow.share),
          onChange: (share: string) => onChange({ ...shadow, share: Number(share) }),
          options: shares.map((share) => ({ value: String(share), label: percent(share) })),
          hint: 'Its provider is paid for each of them by whoever holds the account.',
          disabled,
        }),
  ]
}

/** Comparisons of a route's shadow; null where it has none and none was asked lately. */
export function ShadowCard(props: {
  readonly workspace: string
  readonly route: string
  /** `provider/model` of the published one; null: there is none. */
  readonly shadow: string | null
}) {
  const { workspace, route, shadow } = props
  const place = apiPath`/workspaces/${workspace}/routes/${route}/shadow`
  const load = useLoad<ShadowAnswer>((signal) => api.get(place, { signal }), [place], { everyMs: EVERY_MS })
  const pairs = load.value?.pairs ?? []
  if (shadow === null && pairs.length === 0) return null
  return h(
    Section,
    {
      title: 'Shadow',
      lead: 'Compared with the answers of the last hour, on all nodes. Callers never see it.',
    },
    pairs.length === 0 ? h('p', { class: 'quiet' }, `${shadow ?? ''}: no call was compared yet.`) : null,
    pairs.map((pair) => h(Pair, { key: JSON.stringify([pair.operation, pair.entry, pair.shadow]), pair })),
  )
}

function Pair({ pair }: { readonly pair: ShadowPairAnswer }) {
  const { operation, entry, shadow, calls, failed, words, word_errors: errors } = pair
  const both = (one: number | null, other: number | null, write: (value: number) => string) =>
    `${orNone(other, write)} against ${orNone(one, write)}`
  return h(
    'div',
    { class: 'stack stack-tight' },
    h('p', null, h('b', null, sentenceOf(pair))),
    h(Facts, {
      items: [
        ['Shadow', `${shadow.provider}/${shadow.model}`],
        ['Against', `${entry.provider}/${entry.model}, ${operation}`],
        ['Median latency', both(entry.p50_ms, shadow.p50_ms, milliseconds)],
        ['Cost by price', both(entry.cost_usd, shadow.cost_usd, usd)],
        ['Words that differ', `${number(errors)} of ${number(words)}`],
        ['Calls', `${number(calls)}, ${number(failed)} failed`],
        ...(pair.references.words === 0 ? [] : [['Word errors', referenceWords(pair)] as const]),
      ],
    }),
  )
}

/** `scribe_v2 costs 40 % less, differs in 3.1 % of words, p50 1.20 s against 2.00 s, of 312 calls`. */
export function sentenceOf({ entry, shadow, calls, words, word_errors: errors }: ShadowPairAnswer): string {
  const parts = [
    costWords(entry.cost_usd, shadow.cost_usd),
    words === 0 ? null : `differs in ${percent(errors / words)} of words`,
    entry.p50_ms === null || shadow.p50_ms === null
      ? null
      : `p50 ${milliseconds(shadow.p50_ms)} against ${milliseconds(entry.p50_ms)}`,
    `of ${plural(calls, 'call')}`,
  ]
  return `${shadow.model} ${parts.filter((part) => part !== null).join(', ')}`
}

/** `against 42 references: 4.1 % and 3.2 %`, the shadow's the second one. */
export function referenceWords({ references }: Pick<ShadowPairAnswer, 'references'>): string {
  const { count, words, entry_errors: entry, shadow_errors: shadow } = references
  return `against ${plural(count, 'reference')}: ${percent(entry / words)} and ${percent(shadow / words)}`
}

function costWords(entry: number | null, shadow: number | null): string | null {
  if (entry === null || shadow === null || entry === 0) return null
  const change = (shadow - entry) / entry
  if (Math.abs(change) < 0.0005) return 'costs the same'
  return `costs ${percent(Math.abs(change))} ${change < 0 ? 'less' : 'more'}`
}
