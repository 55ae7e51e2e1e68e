import { ALERTS_PARTITION } from '../../../contracts/ids.ts'

/**
 * Every key that Larkway writes to Redis. The part in braces is the hash tag of a cluster: keys that one script touches
 * together share it.
 */
export const keys = {
  /** The token bucket of an API key, by the key's id. */
  bucket: (workspace: string, keyId: string) => `lk:{${workspace}}:rate:${keyId}`,
  /** A bucket of units, such as tokens, of a key, a workspace or a provider. */
  units: (partition: string, id: string) => `lk:{${partition}}:units:${id}`,
  /** The nodes that are alive. */
  nodes: 'lk:nodes',
  /** Written by health checks. */
  health: 'lk:{health}',
  /** Which generation of what it holds this Redis is. */
  generation: 'lk:{generation}',
  /** Permits, under the name of older nodes; see `permits/permit_steps.lua` for the rest under its hash tag. */
  permits: 'lk:{slots}',
  /** An idempotency slot. */
  slot: (workspace: string, slotId: string) => `lk:{${workspace}}:slot:${slotId}`,
  /** That a token of a call was cancelled. */
  void: (workspace: string, token: string) => `lk:{${workspace}}:void:${token}`,
  /** The sums of an account. */
  account: (workspace: string) => `lk:{${workspace}}:account`,
  /** Grants that were booked on an account, by their ids. */
  grants: (workspace: string) => `lk:{${workspace}}:grants`,
  /** Spending of a workspace this month, in all and by key. */
  spent: (workspace: string) => `lk:{${workspace}}:spent`,
  /** Month and spending of an end user that has a budget. */
  endUser: (workspace: string, account: string) => `lk:{${workspace}}:end-user:${account}`,
  /** Money set aside for calls, by their tokens. */
  reservations: (workspace: string) => `lk:{${workspace}}:reservations`,
  /** Until when each of them may be settled. */
  leases: (workspace: string) => `lk:{${workspace}}:leases`,
  /** Tokens of jobs that were charged, and until when that is remembered. */
  charged: (workspace: string) => `lk:{${workspace}}:charged`,
  /** The charges for dead nodes, by the tokens of their reservations. */
  lost: (workspace: string) => `lk:{${workspace}}:lost`,
  /** That a batch of usage was counted. */
  usage: (workspace: string, token: string) => `lk:{${workspace}}:usage:${token}`,
  /** Hosts that a workspace may fetch audio from. */
  audioUrlDomains: (workspace: string) => `lk:{${workspace}}:audio-url-domains`,
  webhook: (workspace: string) => `lk:{${workspace}}:webhook`,
  /** The secret of the webhook before its own. */
  previousWebhook: (workspace: string) => `lk:{${workspace}}:webhook-previous`,
  /** Whether the console may show audio and transcripts of a workspace. */
  contentShown: (workspace: string) => `lk:{${workspace}}:content-shown`,
  /** The newest requests of a workspace, as the console shows them; see `console/add_requests.lua` for the rest. */
  requests: (workspace: string) => `lk:{${workspace}}:requests`,
  /** The newest failed ones, in the same way. */
  failedRequests: (workspace: string) => `lk:{${workspace}}:requests-failed`,
  /** That a batch of them was kept. */
  requestBatch: (workspace: string, token: string) => `lk:{${workspace}}:requests-batch:${token}`,
  /** The catalog that is made in the console; see `catalog/catalog_steps.lua` for the rest under its hash tag. */
  catalog: 'lk:{catalog}',
  /** A key of the same hash tag that is never written. */
  noCatalog: 'lk:{catalog}:never',
  catalogModels: 'lk:{catalog}:models',
  catalogVersions: (owner: string, recordId: string) => `lk:{catalog}:versions:${owner}:${recordId}`,
  /** Samples that nodes took during the last hour, by the moment. */
  nodeSamples: 'lk:{console}:samples',
  /** When API keys were used last, by id. */
  apiKeyUses: 'lk:{console}:key-uses',
  /** Live sessions that are to end, by id. */
  sessionEnds: 'lk:{console}:session-ends',
  /** How far the records of usage of each process are in the store, by its name. */
  usageMarks: 'lk:{console}:usage-marks',
  /** A session of the console, by the digest of its token. */
  consoleSession: (id: string) => `lk:{console:${id}}:session`,
  /** Ids of sessions of the console by their ends; null: of everybody. */
  consoleSessions: (holder: string | null) =>
    holder === null ? 'lk:{console}:sessions' : `lk:{console:${holder}}:sessions`,
  /** A mark that one sign-in may take. */
  consoleMark: (mark: string) => `lk:{console:${mark}}:mark`,
  /** A partition of the jobs; see `jobs/job_steps.lua` for what else it has under its hash tag. */
  jobs: (partition: number) => `lk:{jobs:${partition}}`,
  /** A key of the same hash tag that is never written. */
  noJobs: (partition: number) => `lk:{jobs:${partition}}:never`,
  /** Incidents that alerts told of and that are not over, by name. */
  incidents: `lk:{jobs:${ALERTS_PARTITION}}:incidents`,
  job: (partition: number, id: string) => `lk:{jobs:${partition}}:job:${id}`,
  /** API keys of all workspaces, by id. */
  apiKeys: 'lk:{keys}:all',
  /** When some of them were revoked. */
  revokedApiKeys: 'lk:{keys}:revoked',
  /** Which change of them was the last. */
  apiKeysVersion: 'lk:{keys}:version',
  /** The last changes of them, newest first. */
  apiKeysChanges: 'lk:{keys}:changes',
}
