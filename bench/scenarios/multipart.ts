import { type Candidate, fastify, larkway, nginx, portkey } from '../candidates.ts'
import type { Trial } from '../harness/measure.ts'
import { larkwayMultipart } from '../larkway.ts'
import { openaiMultipart, portkeyHeaders } from '../openai.ts'
import { GATEWAY_HEADERS, gateways, isLiteLlm } from '../peers/gateways.ts'
import type { S3Store } from '../s3.ts'
import { checked, type RequestOf, type Scenario, sort, upload, verifyAudio } from './scenario.ts'

/** Within max_audio_bytes, and round. */
export const AUDIO_BYTES = 25_000_000

/** Holds 64 such bodies and their copies for the upstream. */
export const EVERYTHING_FITS_MIB = 2_048

/** Less than one such body, so that all of them go to the store. */
export const NOTHING_FITS_MIB = 23
/** Room for what 64 uploads have under way, and so for two of the bodies themselves. */
const NEXT_TO_NOTHING_FITS_MIB = 64

/** An upload of nearly the largest file, passed on whole. Bound by memory copies, so CPU per byte is the figure. */
export const multipart: Scenario = {
  name: 'multipart',
  title: 'Transcription of a 25 MB multipart upload',
  cpuUnit: 's/GB',
  network: 'capped',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick, s3 }) {
    const own: RequestOf = () => larkwayMultipart(AUDIO_BYTES)
    const plain: RequestOf = () => openaiMultipart(AUDIO_BYTES)
    const keyed: RequestOf = () => openaiMultipart(AUDIO_BYTES, GATEWAY_HEADERS)
    const viaPortkey: RequestOf = (port) => openaiMultipart(AUDIO_BYTES, portkeyHeaders(port))
    const tier = (name: string, label: string, memoryMib: number, s3: S3Store | null) =>
      larkway({ name: `larkway-${name}`, label: `Larkway, ${label}`, memoryMib, s3 })
    const s3Tier = (memoryMib: number) =>
      s3
        ? tier('s3', 'store tier, S3', memoryMib, s3)
        : {
            name: 'larkway-s3',
            reason: 'no S3 store: --s3 starts one, or set S3_ENDPOINT and the variables beside it',
          }
    // Their installation is not for a short run.
    const others = quick ? [] : await gateways()
    const candidates = async (storeMib: number) =>
      sort<RequestOf>([
        [tier('memory', 'memory tier', EVERYTHING_FITS_MIB, null), own],
        [await nginx('tuned'), plain],
        [tier('folder', 'store tier, folder', storeMib, null), own],
        [s3Tier(storeMib), own],
        [await nginx('default'), plain],
        [await fastify(), plain],
        [await portkey(), viaPortkey],
        ...others.map((one) => [one, keyed] as const),
      ])
    const few = await candidates(NOTHING_FITS_MIB)
    const many = await candidates(NEXT_TO_NOTHING_FITS_MIB)
    const { skipped } = few
    const seconds = quick ? { warmUp: 0.2, run: 0.5 } : { warmUp: 0.5, run: 3 }
    const trials = [1, 16, 64].flatMap((connections) =>
      (connections === 64 ? many : few).found
        .filter(([candidate]) => connections === 16 || !isLiteLlm(candidate))
        .map(([candidate, request]) => multipartTrial(candidate, request, connections, seconds)),
    )
    return { trials, skipped }
  },
}

export function multipartTrial(
  candidate: Candidate,
  request: RequestOf,
  connections: number,
  seconds: { readonly warmUp: number; readonly run: number },
): Trial {
  const pace = { bytesPerSecond: null, leastPerConnection: 1, connections }
  return {
    candidate,
    load: connections === 1 ? '1 connection' : `${connections} connections`,
    ...(isLiteLlm(candidate) ? { rounds: 1 } : {}),
    verify: (session) => verifyAudio(session, request, AUDIO_BYTES),
    async warmUp(session) {
      // Every connection once: memory that is used for the first time costs more than what is used again.
      await upload(session, request, { ...pace, seconds: seconds.warmUp })
    },
    run: (session) =>
      session.measure(async () => checked(await upload(session, request, { ...pace, seconds: seconds.run }))),
  }
}
