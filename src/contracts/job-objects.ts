import type { Audio, AudioRef, BodyPiece } from './audio.ts'
import type { Job, JobSpec } from './jobs.ts'
import type { KeptObject, KeptText } from './objects.ts'
import type { PartOwner } from './parts.ts'

/** A job by what its objects are filed under. */
export type FiledJob = Pick<JobSpec, 'id' | 'workspace'>

/** Audio for the record of a job. */
export interface InlineAudio {
  /** Names the object that it will be in if no worker takes it up soon. */
  readonly audio: Audio
  readonly input: Uint8Array
}

/**
 * Objects of jobs: `job/<workspace>/<job id>/…` holds their input, `result/<workspace>/<job id>/<fence>` their
 * results. An object is on the disk when the promise resolves. Methods throw GatewayError DEPENDENCY_UNAVAILABLE when
 * the store fails or is too slow, and the signal's reason when aborted.
 */
export interface JobObjects {
  /**
   * Brings audio to where a worker finds it: out of memory, or out of the spool. What is filed under the job already
   * stays as it is. The audio that was given is not released.
   */
  keepAudio(audio: Audio, job: FiledJob, signal: AbortSignal): Promise<Audio>
  /** The same for audio that was sent ahead of the jobs it is for: filed under its own id until the sweep. */
  keepUpload(audio: AudioRef, upload: FiledJob, signal: AbortSignal): Promise<AudioRef>
  /** Copies audio for the record of the job instead. Null: it is too long for that, or not in memory. */
  inline(audio: Audio, job: FiledJob): InlineAudio | null
  /** Audio as it was taken in, out of the record. Null: it is damaged. */
  openInline(audio: Audio, input: Uint8Array): Audio | null
  /** Stores audio of a record in the object that the job names. */
  storeInline(job: Job, input: Uint8Array): Promise<void>
  /**
   * Keeps bytes for a call in parts: those of a job are filed under it, any others go with the call, or with the sweep.
   * The chunks must not change until it resolves.
   */
  keepPiece(owner: PartOwner, chunks: readonly Uint8Array[], signal: AbortSignal): Promise<KeptObject>
  /** Deletes such bytes, and never those of an upload, which are pieces too. Never rejects. */
  dropPieces(pieces: readonly BodyPiece[]): Promise<void>
  /** True where audio that was kept is still there. */
  holds(audio: AudioRef): Promise<boolean>
  /** Keeps the payload of a call; short ones inline. */
  keepPayload(json: string, job: FiledJob): Promise<KeptText>
  /** Keeps a result; short ones inline. Every claim has an object of its own. */
  keepResult(json: string, job: FiledJob, fence: number): Promise<KeptText>
  /** Null: the object is gone. */
  open(text: KeptText): Promise<string | null>
  /** Deletes objects that are not needed: those of a claim that was no longer in force. Never rejects. */
  drop(kept: KeptText | AudioRef | null): Promise<void>
  /**
   * Deletes what a job was given, or what was fetched for it, once no worker runs it any more. Never rejects: what is
   * left goes with the purge.
   *
   * @param isParted its audio was heard in parts, which go with it
   */
  removeInput(job: Job, isParted?: boolean): Promise<void>
  /** Deletes whatever is filed under a job. Never rejects: the sweep finds what is left. */
  removeFiled(job: FiledJob): Promise<void>
  /** Deletes the input of a job, and the result that the record names. What a stale claim kept goes with the sweep. */
  removeAll(job: Job): Promise<void>
}
