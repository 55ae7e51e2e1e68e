import t from 'tap'
import type { Snapshot } from '../../../src/contracts/catalog.ts'
import { newJobId } from '../../../src/contracts/ids.ts'
import type { JobSpec } from '../../../src/contracts/jobs.ts'
import { jobPrincipal } from '../../../src/gateway/call/authentication.ts'
import { principal } from '../../support/catalog.ts'

const { key: _, ...app } = principal()
const rateLimit = { requestsPerMinute: 600, burst: 100 }
const snapshot = {
  apps: new Map([[app.workspace.id, new Map([[app.app.id, app]])]]),
  rateLimit,
} as unknown as Snapshot

const spec: JobSpec = {
  id: newJobId('tj', app.workspace.id),
  kind: 'transcription',
  mode: 'priority',
  endpoint: 'transcription',
  workspace: app.workspace.id,
  app: app.app.id,
  keyId: 'key_gone',
  keyBudgetMicros: 5,
  requestId: 'req_given',
  traceparent: null,
  selectors: { purpose: null, responseProfile: null },
  warnings: [],
  work: { operation: 'speech', payload: { text: '{}' } },
  eventId: null,
}

t.test('the routes are those of now, the key that of then', async (t) => {
  const found = jobPrincipal(spec, snapshot)
  t.equal(found?.route, app.route)
  t.equal(found?.workspace, app.workspace)
  t.match(found?.key, { id: 'key_gone', budgetMicros: 5, scopes: [], expiresAtMs: null, rateLimit })
})

t.test('nobody, when the app or its workspace is gone', async (t) => {
  t.equal(jobPrincipal({ ...spec, app: 'other' }, snapshot), null)
  t.equal(jobPrincipal({ ...spec, workspace: 'other' }, snapshot), null)
})
