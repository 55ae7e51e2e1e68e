import type { FailureAnswer, RequestAnswer, VerdictAnswer } from '../../../api/answers.ts'
import { bytes, plural } from '../../format.ts'
import { html } from '../../html.ts'
import { Facts, Section } from '../../parts/page-head.ts'
import { type Column, Table } from '../../parts/table.ts'
import { leftWords } from '../routes/verdicts.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, wordFor } from '../routes/words.ts'

/** Why a request failed: the field, what was missing, the limit, and what became of each entry. */
export function Failure({
  request,
  failure,
}: {
  readonly request: RequestAnswer
  readonly failure: FailureAnswer
}) {
  const facts = factsOf(failure)
  const { entries, more_entries: more } = failure
  return html`<${Section} title="Why it failed">
    <p><span class="mono">${request.error}</span>: ${failure.message}.</p>
    ${facts.length === 0 ? null : html`<${Facts} items=${facts} />`}
    ${
      entries.length === 0
        ? null
        : html`<${Table}
            caption="Verdict by entry"
            columns=${COLUMNS}
            rows=${entries.map((entry, place) => ({ ...entry, place }))}
            rowKey=${({ place }: Row) => String(place)}
          />`
    }
    ${more === 0 ? null : html`<p class="quiet small">${plural(more, 'more entry', 'more entries')} not shown.</p>`}
  <//>`
}

type Row = VerdictAnswer & { readonly place: number }

const COLUMNS: readonly Column<Row>[] = [
  {
    head: 'Entry',
    primary: true,
    cell: ({ provider, model }) => html`<span class="mono">${provider}/${model}</span>`,
  },
  { head: 'Route', cell: ({ route }) => html`<span class="mono">${route}</span>` },
  { head: 'Verdict', cell: (row) => (row.left === null ? 'Eligible' : `Skipped: ${leftWords(row)}`) },
]

function factsOf({ param, rule, reason, missing, limit }: FailureAnswer) {
  const names = missing.map((name) =>
    wordFor({ ...CAPABILITY_NAMES, ...FEATURE_WORDS, ...OTHER_NAMES }, name),
  )
  return [
    ...(param === null ? [] : [['Field', html`<code>${param}</code>${ruleWords(rule)}`] as const]),
    ...(names.length === 0 ? [] : [['Missing', names.join(', ')] as const]),
    ...(limit === null ? [] : [['Limit', limitWords(limit)] as const]),
    ...(reason === null ? [] : [['Reason', reason.replaceAll('_', ' ')] as const]),
  ]
}

const OTHER_NAMES: Readonly<Record<string, string>> = {
  key: 'Budget of the key',
  workspace: 'Budget of the workspace',
}

/** Rules that go on with a value; the record leaves it out. */
const ENDINGS: Readonly<Record<string, string>> = {
  'must be one of': 'must be one of the documented values',
  'must be at least': 'is below the minimum',
  'must be at most': 'is above the maximum',
  'must be greater than': 'is below the minimum',
  'is over': 'is too long',
  'has over': 'has too many items',
}

function ruleWords(rule: string | null): string {
  return rule === null ? '' : ` ${wordFor(ENDINGS, rule)}`
}

function limitWords({ name, max, actual }: NonNullable<FailureAnswer['limit']>) {
  const write = (value: number) => (name.endsWith('_seconds') ? `${value} s` : bytes(value))
  const words = [
    ...(actual === null ? [] : [`${write(actual)} received`]),
    ...(max === null ? [] : [`${write(max)} allowed`]),
  ]
  return html`<code>${name}</code>${words.length === 0 ? '' : `: ${words.join(', ')}`}`
}
