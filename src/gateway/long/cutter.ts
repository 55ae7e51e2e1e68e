import type { Audio, AudioReader, BodyPiece } from '../../contracts/audio.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { AudioCutter, AudioPart, CutPlan } from '../../contracts/parts.ts'
import { toMilliseconds } from '../../contracts/seconds.ts'
import { type CutPart, cutSound, skipLevelOf } from '../media/cut/cutting.ts'
import { withSound } from '../media/cut/open-sound.ts'
import { Uncuttable } from '../media/cut/sound.ts'
import { audioOfPieces, keepingPieces, type PieceStores } from './kept-pieces.ts'

interface CutterDependencies extends PieceStores {
  readonly reader: AudioReader
}

/** Cuts audio into files of its own container and codec, without decoding it. */
export function createAudioCutter({ reader, ...stores }: CutterDependencies): AudioCutter {
  return {
    async cut(audio, plan, owner, signal) {
      try {
        return await keepingPieces(stores, owner, signal, async (open) => {
          const skipLevel = plan.skipsSilence ? await withSound(reader, audio, signal, skipLevelOf) : null
          const parts = await withSound(reader, audio, signal, (sound) =>
            cutSound(sound, plan, open, skipLevel),
          )
          return parts.map((part) => partOf(part, audio))
        })
      } catch (error) {
        throw error instanceof Uncuttable ? uncuttable(error, plan) : error
      }
    },
    async drop({ source }: Audio) {
      if (source.kind === 'pieces') await stores.objects.dropPieces(source.pieces)
    },
  }
}

function uncuttable({ message }: Uncuttable, { maxBytes, maxSeconds }: CutPlan): GatewayError {
  const limits = [
    ...(Number.isFinite(maxBytes) ? [`${Math.floor(maxBytes)} bytes`] : []),
    ...(Number.isFinite(maxSeconds) ? [`${Math.floor(maxSeconds)} seconds`] : []),
  ]
  return new GatewayError(
    'INVALID_REQUEST',
    `no provider takes this audio whole, and it cannot be cut into parts of at most ${limits.join(' or ')}: ${message}`,
    { param: 'audio' },
  )
}

function partOf(
  { kept, soundSeconds, stretches, ...part }: CutPart<readonly BodyPiece[]>,
  whole: Audio,
): AudioPart {
  const durationSeconds = toMilliseconds(soundSeconds)
  return {
    ...part,
    audio: audioOfPieces({ ...whole, durationSeconds }, kept),
    ...(stretches.length > 1 ? { stretches } : {}),
  }
}
