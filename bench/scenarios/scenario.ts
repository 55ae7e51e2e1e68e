import type { Candidate, Found } from '../candidates.ts'
import type { Session, Trial } from '../harness/measure.ts'
import type { NetworkKind } from '../harness/network.ts'
import type { CpuUnit, Skipped } from '../harness/result.ts'
import type { TogetherOptions } from '../harness/together.ts'
import { makeAudio, type RequestSpec, sha256 } from '../load/request.ts'
import type { UploadReport, UploadTask } from '../load/uploads.ts'
import type { S3Store } from '../s3.ts'

/** Warm-up of a server of small calls, seconds: until V8 has compiled what a call runs. */
export const WARM_UP_SECONDS = 5

export interface Options {
  /** Short runs, fewer of them: for finding out whether it works, not for figures. */
  readonly quick: boolean
  /** Null when there is no store. */
  readonly s3: S3Store | null
}

export interface Plan {
  readonly trials: readonly Trial[]
  readonly skipped: readonly Skipped[]
}

export interface Scenario {
  /** Name of its result file, and what `--only` takes. */
  readonly name: string
  readonly title: string
  readonly cpuUnit: CpuUnit
  /** Where it runs unless `--rmem` says otherwise. */
  readonly network: NetworkKind
  readonly rounds: number
  /**
   * So often its servers are started, and its trials take turns on them, `rounds` times each: for a ratio of two of
   * them that is smaller than what two processes of a program differ by. Absent: each run has a server of its own.
   */
  readonly generations?: number
  /** Which trials take turns then: those of one load, or all; absent: all. */
  readonly turns?: TogetherOptions['turns']
  readonly upstream: { readonly program: string; readonly args: readonly string[] }
  plan(options: Options): Promise<Plan>
}

/** Splits candidates into those to be measured and those that are missing, which results name with the reason. */
export async function sort<Kind>(
  candidates: readonly (readonly [Found | Promise<Found>, Kind])[],
): Promise<{ found: [Candidate, Kind][]; skipped: Skipped[] }> {
  const found: [Candidate, Kind][] = []
  const skipped: Skipped[] = []
  for (const [one, kind] of candidates) {
    const settled = await one
    if ('candidate' in settled) found.push([settled.candidate, kind])
    else skipped.push({ candidate: settled.name, reason: settled.reason })
  }
  return { found, skipped }
}

/** A request may name the upstream's port, which is known only when the scenario runs. */
export type RequestOf = (upstreamPort: number) => RequestSpec

export async function upload(
  { lab, port }: Session,
  request: RequestOf,
  task: Pick<UploadTask, 'connections' | 'seconds' | 'leastPerConnection' | 'bytesPerSecond'>,
): Promise<UploadReport> {
  const full: UploadTask = { ...task, port, request: request(lab.upstreamPort) }
  return await lab.generate<UploadTask, UploadReport>('uploads', full)
}

/** One request at a time, one in all. */
export const ONCE = { connections: 1, seconds: 0, leastPerConnection: 1, bytesPerSecond: null }

const digests = new Map<number, string>()

/** @throws Error unless the transcript is the digest of the audio that the load generators send */
export async function verifyAudio(session: Session, request: RequestOf, audioBytes: number): Promise<void> {
  const digest = digests.get(audioBytes) ?? sha256(makeAudio(audioBytes))
  digests.set(audioBytes, digest)
  const text = transcript(await upload(session, request, ONCE))
  if (text !== `sha256:${digest}`) throw new Error(`the upstream got other audio than was sent: ${text}`)
}

/** The transcript in the last answer: `content` of an envelope, `text` of OpenAI's wire format. */
export function transcript({ lastReply, firstFailure }: UploadReport): unknown {
  if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure ?? 'no answer'}`)
  const answer = JSON.parse(lastReply.body) as { content?: unknown; text?: unknown }
  return answer.content ?? answer.text
}

/** Marks a run as failed whose last answer is not the upstream's plain one. */
export function checked(report: UploadReport, expected = 'ok'): UploadReport {
  if (report.failures > 0 || transcript(report) === expected) return report
  return { ...report, failures: 1, firstFailure: `wrong answer: ${report.lastReply?.body.slice(0, 200)}` }
}
