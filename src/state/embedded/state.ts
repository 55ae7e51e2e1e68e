import type { State } from '../../schema/state.ts'
import { createClaimTokens } from '../claim-tokens.ts'
import { consoleStateOf } from './console-state.ts'
import type { Runner } from './operations.ts'
import { EmbeddedRateLimiter } from './rate-limiter.ts'
import { StateThread, type ThreadOptions } from './thread.ts'

/**
 * State in one SQLite file, which survives a kill and a power cut; for one server. Other processes may open the file
 * at the same time, the command line for one. Rate limits are this process's own.
 *
 * @param options.file a path, or `:memory:` for a state that ends with this process. Opened at the first use; when that
 *                     fails the use does, and `healthy` says so
 */
export function createEmbeddedState(options: ThreadOptions): State {
  return stateOf(new StateThread(options))
}

/**
 * As `createEmbeddedState`, when the file is open.
 *
 * @throws Error that names the file and says what is wrong with it
 */
export async function openEmbeddedState(options: ThreadOptions): Promise<State> {
  const thread = new StateThread(options)
  await thread.open()
  return stateOf(thread)
}

/** The state whose operations somebody runs. */
export function stateOf(runner: Runner): State {
  const limiter = new EmbeddedRateLimiter()
  const isTaken = async (workspace: string, slotId: string): Promise<boolean> => {
    try {
      return (await runner.call('look', workspace, slotId)).state !== 'free'
    } catch {
      return false // no more than a hint is lost
    }
  }
  return {
    kind: 'embedded',
    rateLimiter: {
      take(take) {
        const decision = limiter.take(take)
        if (take.slotId === null || !decision.allowed) return decision
        return isTaken(take.workspace, take.slotId).then((slotTaken) => ({ ...decision, slotTaken }))
      },
      figures: () => limiter.figures(),
    },
    ledger: {
      begin: (beginning) => runner.call('begin', beginning),
      settle: (settlement) => runner.call('settle', settlement),
      cancel: (cancellation) => runner.call('cancel', cancellation),
      look: (workspace, slotId) => runner.call('look', workspace, slotId),
    },
    accounts: {
      show: (workspace, terms) => runner.call('show', workspace, terms),
      addCredits: (workspace, grant) => runner.call('addCredits', workspace, grant),
      addUsage: (batch) => runner.call('addUsage', batch),
    },
    keys: {
      create: (key) => runner.call('createKey', key),
      revoke: (id) => runner.call('revokeKey', id),
      forget: (id) => runner.call('forgetKey', id),
      list: () => runner.call('listKeys'),
      version: () => runner.call('keysVersion'),
    },
    settings: {
      audioUrlDomains: (workspace) => runner.call('audioUrlDomains', workspace),
      putAudioUrlDomains: (workspace, domains) => runner.call('putAudioUrlDomains', workspace, domains),
      webhook: (workspace) => runner.call('webhook', workspace),
      putWebhook: (workspace, webhook, keepMs) => runner.call('putWebhook', workspace, webhook, keepMs),
      removeWebhook: (workspace) => runner.call('removeWebhook', workspace),
      contentShown: (workspace) => runner.call('contentShown', workspace),
      putContentShown: (workspace, shown) => runner.call('putContentShown', workspace, shown),
    },
    jobs: jobsOf(runner),
    outbox: {
      claim: (claiming) => runner.call('claimEvents', claiming),
      end: (event, ending) => runner.call('endEvent', event, ending),
      list: (workspace, limit) => runner.call('listEvents', workspace, limit),
      redeliver: (jobId) => runner.call('redeliverEvent', jobId),
    },
    catalog: {
      version: () => runner.call('catalogVersion'),
      published: () => runner.call('publishedCatalog'),
      get: (record) => runner.call('catalogRecord', record),
      list: (workspace) => runner.call('catalogRecords', workspace),
      versions: (record, below, limit) => runner.call('recordVersions', record, below, limit),
      versionOf: (record, number) => runner.call('recordVersion', record, number),
      change: (change) => runner.call('changeCatalog', change),
      note: (token, note) => runner.call('noteChange', token, note),
      audit: (workspace, below, limit) => runner.call('auditLines', workspace, below, limit),
    },
    console: consoleStateOf(runner),
    healthy: () => runner.call('ping').catch(() => false),
    close: () => runner.close(),
  }
}

function jobsOf(runner: Runner): State['jobs'] {
  const withToken = createClaimTokens()
  return {
    submit: (submission) => runner.call('submitJob', submission),
    get: (id) => runner.call('getJob', id),
    cancel: (id, owner, keep) => runner.call('cancelJob', id, owner, keep),
    claim: (claiming) => withToken((token) => runner.call('claimJobs', claiming, token)),
    renew: (id, fence, leaseMs, progress) => runner.call('renewJob', id, fence, leaseMs, progress),
    end: (id, fence, ending, keep) => runner.call('endJob', id, fence, ending, keep),
    takeExpired: (limit) => runner.call('takeExpiredJobs', limit),
    forget: (id) => runner.call('forgetJob', id),
    known: (ids) => runner.call('knownJobs', ids),
    list: (filter) => runner.call('listJobs', filter),
    retry: (id) => runner.call('retryJob', id),
    waiting: () => runner.call('waitingJobs'),
    figures: () => runner.call('jobFigures'),
    // Nobody else has the file but the command line, which does little.
    listen() {},
  }
}
