import type { Audio } from '../../../src/contracts/audio.ts'
import type { CutPlan } from '../../../src/contracts/parts.ts'
import { type CutPart, cutSound, skipLevelOf } from '../../../src/gateway/media/cut/cutting.ts'
import { withSound } from '../../../src/gateway/media/cut/open-sound.ts'
import { createMediaProbe } from '../../../src/gateway/media/probe.ts'
import { memoryAudio } from '../../support/memory-audio.ts'

/** Cuts a file in memory, as the gateway does it in the store. */
export async function cutFile(
  bytes: Uint8Array,
  plan: (audio: Audio) => CutPlan | null,
  signal = new AbortController().signal,
): Promise<{ readonly audio: Audio; readonly parts: readonly CutPart<Buffer>[] }> {
  const { audio: ref, reader } = memoryAudio(bytes, 'identity')
  const audio = await createMediaProbe({ reader }).probe(ref, signal)
  const planned = plan(audio)
  if (planned === null) throw new Error('there is no plan')
  const skipLevel = planned.skipsSilence ? await withSound(reader, audio, signal, skipLevelOf) : null
  const parts = await withSound(reader, audio, signal, (sound) =>
    cutSound(
      sound,
      planned,
      () => {
        const chunks: Uint8Array[] = []
        return {
          async write(more) {
            chunks.push(...more.map((chunk) => chunk.slice()))
          },
          finish: async (head) => Buffer.concat([head, ...chunks]),
        }
      },
      skipLevel,
    ),
  )
  return { audio, parts }
}

/** A plan without regard for what is worth it, so that files of a second have parts. */
export function plainPlan(targetSeconds: number, more: Partial<CutPlan> = {}): CutPlan {
  return {
    targetSeconds,
    windowSeconds: targetSeconds / 8,
    overlapSeconds: Math.min(2, targetSeconds / 8),
    maxSeconds: Number.POSITIVE_INFINITY,
    maxBytes: Number.POSITIVE_INFINITY,
    count: null,
    durationSeconds: null,
    skipsSilence: false,
    isOptional: false,
    ...more,
  }
}
