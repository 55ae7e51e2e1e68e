import { type Static, Type } from 'typebox'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { AuditLine } from '../../../schema/catalog-store.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { AuditAnswer } from './answers.ts'
import { PLAYGROUND_ACTIONS, PlaygroundField } from './playground-key.ts'
import { scopeOf, WorkspaceField } from './scope.ts'

const PATH = '/audit'
const PAGE_LINES = 100

const Query = Type.Object({
  workspace: WorkspaceField,
  playground: PlaygroundField,
  below: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
})

/** Who changed what, newest first, a page at a time: of one workspace, or of all. */
export function auditEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'GET', PATH, { query: Query }, listAudit)
}

async function listAudit(call: ConsoleCall<typeof PATH, unknown, Static<typeof Query>>) {
  const { desk, query } = call
  const scope = scopeOf(call)
  const found: AuditLine[] = []
  let below = query.below ?? null
  for (;;) {
    const lines = await desk.records.audit(scope, below, PAGE_LINES)
    found.push(...lines.filter(({ action }) => query.playground === 'true' || !OWN.has(action)))
    below = lines.at(-1)?.number ?? null
    // A page is whole unless there are no more.
    if (lines.length < PAGE_LINES || found.length >= PAGE_LINES) break
  }
  return { lines: found.slice(0, PAGE_LINES).map(auditAnswer) }
}

const OWN: ReadonlySet<string> = new Set(Object.values(PLAYGROUND_ACTIONS))

function auditAnswer({ by, atMs, ...line }: AuditLine): AuditAnswer {
  const { number, action, workspace, target, before, after, detail } = line
  return {
    number,
    at: timestamp(atMs),
    by: { via: by.via, key_id: by.keyId, name: by.name },
    action,
    workspace,
    target,
    before,
    after,
    detail,
  }
}
