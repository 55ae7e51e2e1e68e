import { hash } from 'node:crypto'
import type { Entry } from '../schema/catalog.ts'
import type { JobContext } from './gateway.ts'

/**
 * Names an entry for those who take a job over: the same on every node and after a reload, as long as the entry asks
 * the same of the same provider.
 */
export function entryKey({ provider, model, options }: Entry): string {
  const fields = Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1))
  return `${provider.name}/${model}#${hash('sha256', JSON.stringify(fields)).slice(0, 16)}`
}

/** A try behind a failure is another attempt: a provider may repeat its answer to the same one, whatever it was. */
export function attemptKeyOf({ id, retries }: JobContext, entry: Entry): string {
  return `lk-${hash('sha256', `${id} ${retries} ${entryKey(entry)}`).slice(0, 32)}`
}

/**
 * What an attempt for a job leaves to the next claim of the job: the state of what its provider works on, so that it is
 * looked after and not ordered again.
 */
export class Handover {
  readonly #job: JobContext
  readonly #entry: string
  /** As an earlier claim left it with this entry; null: it left nothing. */
  readonly left: { readonly state: unknown } | null
  /** JSON of what was kept last. */
  #state: string | null

  /** @param goesOn whether the job's progress is that of this very entry */
  constructor(job: JobContext, entry: Entry, goesOn: boolean) {
    this.#job = job
    this.#entry = entryKey(entry)
    this.left = goesOn && job.progress !== null ? { state: job.progress.state } : null
    this.#state = this.left === null ? null : JSON.stringify(this.left.state)
  }

  /** Whether another claim could go on from what was kept. */
  get kept(): boolean {
    return this.#state !== null
  }

  /** @param state as `Operation.resume` takes it */
  keep(state: unknown): void {
    const json = JSON.stringify(state)
    if (json === this.#state) return
    this.#state = json
    this.#job.note({ entry: this.#entry, state })
  }

  /** There is nothing to be gone on with any more. */
  drop(): void {
    if (this.#state === null) return
    this.#state = null
    this.#job.note(null)
  }
}
