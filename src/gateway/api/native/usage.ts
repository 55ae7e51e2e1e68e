import { GatewayError } from '../../../contracts/errors.ts'
import { USAGE_MEASURES, USAGE_STEPS } from '../../../usage/answer.ts'
import { csvLines, reportJson, rowsJson } from '../../../usage/report.ts'
import { keyActor, roleOf } from '../../admin/actor.ts'
import { askUsage, type UsageAdminContext } from '../../admin/usage.ts'
import { USAGE_DIMENSIONS, USAGE_PARAMETERS } from '../../admin/usage-question.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import { accepts } from '../accept.ts'
import { type Dependencies, type EndpointCall, endpoint } from '../endpoint.ts'
import { inTurns, jsonReply, largeList } from '../json-reply.ts'
import { Usage } from '../openapi/answers.ts'
import { CSV, json } from '../openapi/operation.ts'
import type { Json } from '../openapi/schema.ts'

/** Parts that the endpoint of usage works with. */
export interface UsageNeeds extends Dependencies {
  /** Absent: this node keeps no records of usage. */
  readonly usage?: UsageAdminContext
}

const FORMATS = ['json', 'csv'] as const
type Format = (typeof FORMATS)[number]

export const usage = endpoint({
  method: 'GET',
  path: '/v1/usage',
  kind: 'none',
  id: 'usage',
  tag: 'Account',
  summary: 'Usage of a time',
  description:
    'Calls, errors, cost, quantities and latencies of the workspace, by any dimension. Keys with the scope ' +
    '`operator` are told of all workspaces, or of those that `workspace` names.',
  scope: 'admin',
  operator: true,
  parameters: [usageParameters()],
  answers: [
    {
      status: 200,
      description: 'sums by group, the most costly first',
      contents: [json(Usage), CSV],
      headers: ['X-LK-Groups', 'X-LK-Truncated'],
    },
  ],
  errors: ['NOT_FOUND'],
  async handle({ exchange, context, deps }: EndpointCall<undefined, UsageNeeds>): Promise<Reply> {
    const { usage } = deps
    if (usage === undefined) throw new GatewayError('NOT_FOUND', 'this node keeps no records of usage')
    const { format, input } = questionIn(exchange)
    const { principal } = context
    const report = await askUsage(
      keyActor(principal, roleOf(principal) ?? 'admin'),
      input,
      usage,
      exchange.signal,
    )
    if (format === 'csv') {
      const { groups, truncated } = reportJson(report)
      const facts = { 'x-lk-groups': `${groups}`, 'x-lk-truncated': `${truncated}` }
      const headers = { 'content-type': 'text/csv; charset=utf-8', ...facts }
      return { status: 200, headers, body: await inTurns(csvLines(report)) }
    }
    const data = largeList(report.answer.rows.length, () => rowsJson(report))
    return jsonReply({ ...reportJson(report), data })
  },
})

/** @throws GatewayError INVALID_REQUEST for a format that there is not */
function questionIn({ query, headers }: Pick<Exchange, 'query' | 'headers'>): {
  readonly format: Format
  readonly input: Map<string, string[]>
} {
  const input = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(query)) input.set(name, [...(input.get(name) ?? []), value])
  const named = input.get('format')
  input.delete('format')
  if (named === undefined)
    return { format: accepts(headers.accept, /^\s*text\/csv/i) ? 'csv' : 'json', input }
  const format = FORMATS.find((known) => named.length === 1 && known === named[0])
  if (format === undefined) throw invalidField('format', MUST.beOneOf(FORMATS))
  return { format, input }
}

function usageParameters(): Json {
  const choices: Readonly<Record<string, readonly string[]>> = { step: USAGE_STEPS, sort: USAGE_MEASURES }
  const named = Object.entries(USAGE_PARAMETERS).map(([name, description]) => {
    const isCount = name === 'limit' || name === 'offset'
    return [
      name,
      isCount
        ? { type: 'integer', minimum: name === 'limit' ? 1 : 0, description }
        : { type: 'string', description, ...(choices[name] === undefined ? {} : { enum: choices[name] }) },
    ] as const
  })
  const filters = USAGE_DIMENSIONS.map((name) => [
    name,
    { type: 'array', items: { type: 'string' }, description: 'one of these values; an empty one is none' },
  ])
  const format = { type: 'string', enum: FORMATS, description: '`csv` also by `Accept: text/csv`' }
  return {
    name: 'question',
    in: 'query',
    style: 'form',
    explode: true,
    schema: { type: 'object', properties: Object.fromEntries([...named, ['format', format], ...filters]) },
    // Pages that send calls fill a form with this, instead of a value for every parameter.
    example: {},
  }
}
