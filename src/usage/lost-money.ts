import { idTimeMs } from '../contracts/ids.ts'
import { type Accounts, BATCH_SENT_MS, type CallLedger } from '../contracts/ledger.ts'
import type { Logger } from '../contracts/log.ts'
import type { Permits } from '../contracts/permits.ts'
import { type Clock, sleep } from '../contracts/time.ts'
import type { UsageLedger } from './ledger.ts'
import type { JournalledMoney } from './money-journal.ts'

const PAUSE_MS = 30_000
/** One node at a time: a record that two nodes wrote would count twice until their files are merged. */
const RECORDING = { name: 'usage:lost-money', most: 1 }

export interface LostTiming {
  /** Pause between two looks for money of dead nodes. */
  readonly lostMs: number
}

interface LostDependencies extends Partial<LostTiming> {
  readonly accounts: Pick<Accounts, 'lost' | 'recorded'>
  readonly permits: Pick<Permits, 'take'>
  readonly ledger: Pick<UsageLedger, 'lostMoney'>
  readonly workspaces: () => Iterable<string>
  /** The app of a key; empty: there is no such key any more. */
  readonly appOf: (keyId: string) => Promise<string>
  readonly log: Logger
  readonly clock: Clock
}

/**
 * Charges unsettled money of dead nodes, and records it. The state lists each amount until it is told that the amount
 * was recorded: a crash in between writes its record twice, with the same `record_id`.
 */
export function recordLostMoney(deps: LostDependencies) {
  const { accounts, permits, ledger, workspaces, appOf, log, clock, lostMs = PAUSE_MS } = deps
  const stopping = new AbortController()
  const { signal } = stopping
  let away = false

  async function recordOf(workspace: string): Promise<void> {
    for (const lost of await accounts.lost(workspace))
      if (ledger.lostMoney(workspace, await appOf(lost.keyId), lost)) await accounts.recorded(workspace, lost)
  }

  async function round(): Promise<void> {
    const taken = await permits.take([RECORDING])
    if ('full' in taken) return
    try {
      for (const workspace of workspaces()) {
        if (signal.aborted) return
        await recordOf(workspace)
      }
      away = false
    } catch (error) {
      if (!away) log.warn({ err: error }, 'usage: money of dead nodes cannot be recorded')
      away = true
    } finally {
      taken.lease.release()
    }
  }

  async function rounds(): Promise<void> {
    while (!signal.aborted) {
      await round()
      await sleep(clock, lostMs, { signal, ref: false }).catch(() => {})
    }
  }

  const done = rounds()
  return {
    /** Resolves when the current round is over. */
    stop(): Promise<void> {
      stopping.abort()
      return done
    },
  }
}

/**
 * Settles the money of a dead process in the state. Doing it again changes nothing.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the state does not answer
 */
export async function settleJournal(
  { money, usage }: JournalledMoney,
  state: { readonly ledger: Pick<CallLedger, 'recover'>; readonly accounts: Pick<Accounts, 'addUsage'> },
  clock: Clock,
): Promise<void> {
  for (const held of money) await state.ledger.recover(held)
  for (const batch of usage)
    if (idTimeMs(batch.token) > clock.wallNow() - BATCH_SENT_MS) await state.accounts.addUsage(batch)
}
