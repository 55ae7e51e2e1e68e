import { type Static, Type } from 'typebox'
import { PLAYGROUND_ACTIONS } from '../../../admin/keys.ts'
import { timestamp } from '../../../api/json-reply.ts'
import type { AuditLine } from '../../../contracts/catalog-store.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint, scopeOf, WorkspaceField } from '../endpoint.ts'
import type { AuditAnswer } from './answers.ts'
import { PlaygroundField } from './keys.ts'

const PATH = '/audit'
const PAGE_LINES = 100

const Query = Type.Object({
  workspace: WorkspaceField,
  playground: PlaygroundField,
  below: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
})

/** The audit list, newest first, a page at a time: of one workspace, or of all. */
export function auditEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, { query: Query }, listAudit)
}

async function listAudit(call: ConsoleCall<typeof PATH, unknown, Static<typeof Query>>) {
  const { context, query } = call
  const scope = scopeOf(call)
  const found: AuditLine[] = []
  let below = query.below ?? null
  for (;;) {
    const lines = await context.admin.state.catalog.audit(scope, below, PAGE_LINES)
    found.push(...lines.filter(({ action }) => query.playground === 'true' || !PLAYGROUND.has(action)))
    below = lines.at(-1)?.number ?? null
    // A page is whole unless there are no more.
    if (lines.length < PAGE_LINES || found.length >= PAGE_LINES) break
  }
  return { lines: found.slice(0, PAGE_LINES).map(auditAnswer) }
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
