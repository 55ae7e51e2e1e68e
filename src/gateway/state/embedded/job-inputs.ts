import type { JobKind, JobStatus } from '../../../contracts/jobs.ts'
import type { StateDatabase } from './database.ts'

/** Bytes in the state, audio or not, from which on there is no room. Its file stays as large as it was once. */
const STATE_BYTES = 128 * 1024 ** 2

/** The audio in the records of jobs. */
export interface InputRows {
  hasRoom(): boolean
  put(number: number, input: Uint8Array, nowMs: number): void
  of(number: number): Uint8Array | undefined
  /** Audio that came before `untilMs` and that no worker has. @param againMs from when on it may be taken again */
  take(limit: number, untilMs: number, againMs: number): readonly InputRow[]
  remove(number: number): void
}

interface InputRow {
  readonly number: number
  readonly input: Uint8Array
}

export function createInputRows(db: StateDatabase): InputRows {
  const put = db.prepare('INSERT INTO job_inputs (number, since_ms, input) VALUES (?, ?, ?)')
  const find = db.query<InputRow>('SELECT number, input FROM job_inputs WHERE number = ?')
  const take = db.query<InputRow>(`
    UPDATE job_inputs SET since_ms = :againMs WHERE number IN (
      SELECT number FROM job_inputs LEFT JOIN jobs USING (number)
      WHERE since_ms <= :untilMs AND status IS NOT 'processing' ORDER BY since_ms LIMIT :limit + 0
    ) RETURNING number, input`)
  const remove = db.prepare('DELETE FROM job_inputs WHERE number = ?')
  const used = db.query<{ readonly bytes: number }>(`
    SELECT (page_count - freelist_count) * page_size AS bytes
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size`)
  return {
    hasRoom: () => used.get()!.bytes < STATE_BYTES,
    put: (number, input, nowMs) => void put.run(number, nowMs, input),
    of: (number) => find.get(number)?.input,
    take: (limit, untilMs, againMs) => take.all({ limit, untilMs, againMs }),
    remove: (number) => void remove.run(number),
  }
}

/** Whether a job that no worker has may ask for its audio yet. */
export function isWaiting({ kind, status }: { readonly kind: JobKind; readonly status: JobStatus }): boolean {
  return status === 'queued' || (kind === 'queue' && status === 'failed')
}
