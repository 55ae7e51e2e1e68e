import { newId } from '../ids.ts'
import type { Logger } from '../log.ts'
import type { Accounts, UsageBatch } from '../schema/ledger.ts'

/** What calls came to is written this long after them at most. */
const FLUSH_MS = 1_000

/**
 * Counts what calls without a reservation came to, and writes it in batches. While the state is away the sums wait
 * here: their size follows the keys in use, not the calls. A node that dies loses the last second of them.
 */
export interface UsageBook {
  /** @param micros micro-USD */
  note(workspace: string, keyId: string, micros: number): void
  /** Writes what is left. Resolves also when the state does not take it, which is logged. */
  close(): Promise<void>
}

export function createUsageBook(accounts: Pick<Accounts, 'addUsage'>, log: Logger): UsageBook {
  return new BatchingUsageBook(accounts, log)
}

class BatchingUsageBook implements UsageBook {
  readonly #accounts: Pick<Accounts, 'addUsage'>
  readonly #log: Logger
  /** Workspace → key → micro-USD. */
  #noted = new Map<string, Map<string, number>>()
  /** A batch that the state may have taken: it is sent again as it is, by its token. */
  #unsure: UsageBatch | null = null
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> = Promise.resolve()

  constructor(accounts: Pick<Accounts, 'addUsage'>, log: Logger) {
    this.#accounts = accounts
    this.#log = log
  }

  note(workspace: string, keyId: string, micros: number): void {
    if (micros === 0) return
    const spent = this.#noted.get(workspace) ?? new Map<string, number>()
    this.#noted.set(workspace, spent)
    spent.set(keyId, (spent.get(keyId) ?? 0) + micros)
    this.#schedule()
  }

  async close(): Promise<void> {
    await this.#flushing
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#flush()
    if (this.#unsure !== null) this.#log.error('the usage of the last calls is lost')
  }

  #schedule(): void {
    if (this.#timer !== null) return
    const flush = () => {
      this.#flushing = this.#flush().then(() => {
        this.#timer = null
        if (this.#unsure !== null || this.#noted.size > 0) this.#schedule()
      })
    }
    this.#timer = setTimeout(flush, FLUSH_MS).unref()
  }

  async #flush(): Promise<void> {
    const wasAway = this.#unsure !== null
    const batches = [...(this.#unsure === null ? [] : [this.#unsure]), ...this.#takeNoted()]
    this.#unsure = null
    for (const [index, batch] of batches.entries()) {
      try {
        await this.#accounts.addUsage(batch)
      } catch {
        // What was not sent yet is joined with what comes, so that an outage piles nothing up.
        this.#unsure = batch
        for (const unsent of batches.slice(index + 1)) this.#putBack(unsent)
        break
      }
    }
    if (this.#unsure !== null && !wasAway) {
      this.#log.warn('the state does not take the usage of calls: it is kept here until it does')
    }
  }

  #takeNoted(): UsageBatch[] {
    const noted = this.#noted
    this.#noted = new Map()
    return [...noted].map(([workspace, spent]) => {
      return { token: newId('call'), workspace, spentMicros: Object.fromEntries(spent) }
    })
  }

  #putBack({ workspace, spentMicros }: UsageBatch): void {
    for (const [keyId, micros] of Object.entries(spentMicros)) this.note(workspace, keyId, micros)
  }
}
