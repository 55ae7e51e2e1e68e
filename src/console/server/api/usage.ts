import { type Static, type TSchema, Type } from 'typebox'
import { askUsage } from '../../../admin/usage.ts'
import { USAGE_DIMENSIONS, USAGE_PARAMETERS } from '../../../admin/usage-question.ts'
import { jsonReply, largeList } from '../../../api/json-reply.ts'
import { dateOf } from '../../../usage/names.ts'
import { type UsageReport, usageCsv, usageJson } from '../../../usage/report.ts'
import type { ConsoleContext } from '../context.ts'
import {
  type ConsoleCall,
  type ConsoleRoute,
  compressed,
  consoleEndpoint,
  scopeOf,
  WorkspaceField,
  WrittenReply,
} from '../endpoint.ts'
import type { UsageNames } from './answers.ts'
import { keyNames } from './keys.ts'

const PATH = '/usage'

/** Every parameter of `GET /v1/usage`, each at most once; what it may be is for the reader of questions to say. */
const QUESTION: Record<string, TSchema> = Object.fromEntries(
  [...Object.keys(USAGE_PARAMETERS), ...USAGE_DIMENSIONS].map((name) => [name, Type.Optional(Type.String())]),
)
const Query = Type.Object({
  ...QUESTION,
  workspace: WorkspaceField,
  format: Type.Optional(Type.Enum(['json', 'csv'])),
})

type Call = ConsoleCall<typeof PATH, unknown, Static<typeof Query>>

/** Usage of one workspace, or (operators) of all: questions and answers of `GET /v1/usage`, with names of keys. */
export function usageEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, { query: Query }, usage)
}

async function usage(call: Call): Promise<WrittenReply> {
  const { context, viewer, query, exchange } = call
  const scope = scopeOf(call)
  const { format = 'json', ...asked } = query as Readonly<Record<string, string>>
  const input = new Map(Object.entries(asked).map(([name, value]) => [name, [value]]))
  if (scope !== null) input.set('workspace', [scope])
  const actor = { ...viewer.actor, workspace: scope }
  const report = await askUsage(actor, input, context.usage)
  if (format === 'csv') return new WrittenReply(csvReply(report))
  const { data, ...rest } = usageJson(report)
  const answer = {
    ...rest,
    is_recorded: context.usage.isRecorded,
    names: await namesIn(report, context),
    data: largeList(data.length, () => data),
  }
  return new WrittenReply(await compressed(await jsonReply(answer), exchange))
}

function csvReply(report: UsageReport) {
  const { fromMs, toMs } = report.question
  const [from, to] = [dateOf(fromMs), dateOf(toMs - 1)]
  return {
    status: 200,
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="usage-${from}-${to}.csv"`,
    },
    body: usageCsv(report),
  }
}

/**
 * What the keys of a report are called, by their ids; those that are not known any more are left out. A key that was
 * only asked for is named where it has records: others may be of another workspace.
 */
async function namesIn({ question, answer }: UsageReport, context: ConsoleContext): Promise<UsageNames> {
  const { by, where } = question
  const at = by.indexOf('key_id')
  const told = at < 0 ? [] : answer.rows.map(({ values }) => values[at] ?? null)
  const asked = answer.total.sums.calls > 0 && where.key_id?.length === 1 ? where.key_id : []
  const ids = new Set([...told, ...asked].filter((id) => id !== null))
  if (ids.size === 0) return {}
  const nameOf = await keyNames(context)
  const named = [...ids].map((id) => [id, nameOf(id)] as const)
  return Object.fromEntries(named.filter((pair): pair is [string, string] => pair[1] !== null))
}
