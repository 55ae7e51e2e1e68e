import { type Static, Type } from 'typebox'
import type { AuditLine } from '../../../contracts/catalog-store.ts'
import { PLAYGROUND_ACTIONS } from '../../../gateway/admin/keys.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type { StreamedReply } from '../../../gateway/edge/exchange.ts'
import { invalidField } from '../../../gateway/edge/refusals.ts'
import { csvLine } from '../../../usage/csv.ts'
import { LOG_FORMATS, type LogFormat } from '../../../usage/log-report.ts'
import { dateOf } from '../../../usage/names.ts'
import type { AuditAnswer, AuditListAnswer } from '../answers/audit.ts'
import type { ConsoleContext } from '../context.ts'
import type { ConsoleCall, ConsoleRoute } from '../endpoint.ts'
import { consoleEndpoint, scopeOf, WorkspaceField, WrittenReply } from '../endpoint.ts'
import { exportedList, exportReply } from '../exports.ts'
import { PlaygroundField } from './keys.ts'
import { timeParameter } from './lists.ts'

const PATH = '/audit'
const LIMIT_DEFAULT = 100
const LIMIT_MAX = 1_000
/** Lines that one request looks through: a rare match must not hold a node for long. */
const SCANNED_MAX = 10_000
/** Lines that are read from the state at a time. */
const READ_LINES = 1_000

const Text = Type.Optional(Type.String({ maxLength: 128 }))
const Query = Type.Object({
  workspace: WorkspaceField,
  playground: PlaygroundField,
  actor: Text,
  target: Text,
  from: Text,
  to: Text,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
  below: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  format: Type.Optional(Type.Enum([...LOG_FORMATS])),
})

/** The audit list, newest first, a page at a time or as a file: of one workspace, or of all. */
export function auditEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, { query: Query }, listAudit)
}

type Asked = Static<typeof Query>
type Call = ConsoleCall<typeof PATH, unknown, Asked>

/** Lines, newest first, and where the next ones begin; null: there are none. */
interface Found {
  readonly lines: readonly AuditLine[]
  readonly next: number | null
}

async function listAudit(call: Call): Promise<AuditListAnswer | WrittenReply> {
  const { query } = call
  const { format, below = null, limit } = query
  const find = finderOf(call)
  if (format !== undefined) {
    if (query.below !== undefined || limit !== undefined)
      throw invalidField(limit === undefined ? 'below' : 'limit', 'cannot be combined with format')
    return new WrittenReply(exportOf(call, format, find))
  }
  const { lines, next } = await find(below, limit ?? LIMIT_DEFAULT)
  return { lines: lines.map(auditAnswer), next }
}

/** @throws GatewayError INVALID_REQUEST for a time that is none */
function finderOf(call: Call): (below: number | null, limit: number) => Promise<Found> {
  const { context, query } = call
  const scope = scopeOf(call)
  const isMeant = matching(query)
  const fromMs = timeParameter(query, 'from') ?? Number.NEGATIVE_INFINITY
  return async (from, limit) => {
    const size = isFiltered(query) ? READ_LINES : limit
    const found: AuditLine[] = []
    let below = from
    for (let scanned = 0; scanned < SCANNED_MAX; ) {
      const lines = await context.admin.state.catalog.audit(scope, below, size)
      for (const line of lines) {
        // The clock of the state never goes back: everything below is older still.
        if (line.atMs < fromMs) return { lines: found, next: null }
        below = line.number
        if (isMeant(line)) found.push(line)
        if (found.length === limit) return { lines: found, next: below }
      }
      if (lines.length < size) return { lines: found, next: null }
      scanned += lines.length
    }
    return { lines: found, next: below }
  }
}

/** All lines, or the newest `EXPORT_MAX`. */
function exportOf(call: Call, format: LogFormat, find: ReturnType<typeof finderOf>): StreamedReply {
  let below: number | null = null
  const stream = exportedList({
    format,
    head: csvLine(HEADS),
    member: 'lines',
    clock: call.context.clock,
    async next(most) {
      const { lines, next } = await find(below, Math.min(LIMIT_MAX, most))
      below = next
      const texts = lines.map((line) => (format === 'csv' ? csvOf(line) : JSON.stringify(auditAnswer(line))))
      return { text: texts.join(format === 'csv' ? '' : ',\n'), rows: lines.length, more: next !== null }
    },
  })
  const name = `audit-${scopeOf(call) ?? 'platform'}-${dateOf(call.context.clock.wallNow())}`
  return exportReply(name, format, stream)
}

const HEADS = [
  ...['number', 'at', 'actor', 'via', 'key_id', 'action', 'workspace', 'target', 'before', 'after', 'detail'],
]

function csvOf(line: AuditLine): string {
  const { number, by, action, workspace, target, before, after, detail } = line
  const who = [by.name, by.via, by.keyId]
  return csvLine([number, timestamp(line.atMs), ...who, action, workspace, target, before, after, detail])
}

function isFiltered({ actor, target, from, to }: Asked): boolean {
  return [actor, target, from, to].some((one) => one !== undefined && one !== '')
}

/** @throws GatewayError INVALID_REQUEST for a time that is none */
function matching(query: Asked): (line: AuditLine) => boolean {
  const toMs = timeParameter(query, 'to') ?? Number.POSITIVE_INFINITY
  const [actor, target] = [query.actor, query.target].map((text = '') => text.trim().toLowerCase())
  const isIn = (wanted: string | undefined, texts: readonly (string | null | undefined)[]) =>
    !wanted || texts.some((text) => text?.toLowerCase().includes(wanted) === true)
  return ({ by, action, target: object, detail, atMs }) =>
    (query.playground === 'true' || !PLAYGROUND.has(action)) &&
    atMs <= toMs &&
    isIn(actor, [by.name, by.keyId, by.subject]) &&
    isIn(target, [object, action, detail])
}

const PLAYGROUND: ReadonlySet<string> = new Set(Object.values(PLAYGROUND_ACTIONS))

function auditAnswer({ by, atMs, ...line }: AuditLine): AuditAnswer {
  const { number, action, workspace, target, before, after, detail } = line
  return {
    number,
    at: timestamp(atMs),
    by: {
      ...{ via: by.via, key_id: by.keyId, name: by.name },
      ...(by.subject === undefined ? {} : { subject: by.subject }),
    },
    action,
    workspace,
    target,
    before,
    after,
    detail,
  }
}
