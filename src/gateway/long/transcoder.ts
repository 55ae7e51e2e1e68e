import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { availableParallelism, setPriority, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Audio, AudioReader } from '../../contracts/audio.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { wavHeadOf } from '../../contracts/live-audio.ts'
import type { MediaProbe } from '../../contracts/media.ts'
import type { AudioTranscoder, Transcoding } from '../../contracts/parts.ts'
import type { Clock } from '../../contracts/time.ts'
import type { PartSink } from '../media/cut/cutting.ts'
import { audioOfPieces, keepingPieces, type PieceStores } from './kept-pieces.ts'

export interface TranscoderDependencies extends PieceStores {
  readonly reader: AudioReader
  readonly probe: Pick<MediaProbe, 'probe'>
  readonly clock: Clock
  /** Value of the environment variable PATH. */
  readonly path: string | undefined
}

const PROGRAM = 'ffmpeg'
/** Models of speech hear no more than this; Hz. */
const SAMPLE_RATE = 16_000
const MEMORY_KIB = 1024 * 1024
const CPU_SECONDS = 900
const NICENESS = 10
/** Longest audio that is made, whatever a file claims to hold. */
const SECONDS_MAX = 24 * 3600

/** Containers that are read; no lists of further files, which could name any. */
const DEMUXERS =
  'aac,ac3,aiff,amr,ape,asf,au,avi,caf,dts,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,tta,voc,w64,' +
  'wav,wv'

/** Codecs that are decoded: of sound alone, so that no picture is looked at. */
const DECODERS =
  'aac,aac_latm,ac3,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,adpcm_swf,adpcm_yamaha,alac,amrnb,amrwb,ape,dca,' +
  'eac3,flac,g729,gsm,gsm_ms,mp1float,mp2,mp2float,mp3,mp3float,nellymoser,opus,pcm_alaw,pcm_f32be,' +
  'pcm_f32le,pcm_f64be,pcm_f64le,pcm_mulaw,pcm_s16be,pcm_s16le,pcm_s24be,pcm_s24le,pcm_s32be,pcm_s32le,' +
  'pcm_s8,pcm_u8,speex,tta,vorbis,wavpack,wmalossless,wmapro,wmav1,wmav2,wmavoice'

/** Makes audio into formats that entries take, by a process of the system's `ffmpeg` for each. */
export function createAudioTranscoder(deps: TranscoderDependencies): AudioTranscoder {
  const { reader, probe, clock, path, ...stores } = deps
  const turns = new Turns(availableParallelism())
  return {
    get isAvailable() {
      return findTranscoder(path) !== null
    },
    async transcode(audio, to, owner, limitMs, signal) {
      const program = findTranscoder(path)
      if (program === null) throw unreadable()
      const late = new AbortController()
      const timer = clock.after(limitMs, () => late.abort(new GatewayError('UPSTREAM_TIMEOUT', LATE)))
      const stop = AbortSignal.any([signal, late.signal])
      try {
        stop.throwIfAborted()
        return await turns.take(stop, () =>
          keepingPieces(stores, owner, stop, async (open) => {
            const child = start(program, audio, to)
            const pieces = await piped(child, reader.bytes(audio, stop), sinkFor(to, open()), stop)
            const made = audioOfPieces(
              { ...audio, format: to.format, filename: null, mediaType: null },
              pieces,
            )
            return await probe.probe(made, stop)
          }),
        )
      } finally {
        timer.close()
      }
    },
  }
}

const LATE = 'the audio was not transcoded in time'

/** The program that transcodes; null: there is none on the path. */
export function findTranscoder(path: string | undefined): string | null {
  for (const folder of (path ?? '').split(delimiter)) {
    if (folder === '') continue
    try {
      accessSync(join(folder, PROGRAM), constants.X_OK)
      return join(folder, PROGRAM)
    } catch {
      // It is not in this folder.
    }
  }
  return null
}

function unreadable(): GatewayError {
  return new GatewayError('UNSUPPORTED_AUDIO_FORMAT', undefined, { param: 'audio' })
}

/**
 * Starts the program with limits on its memory, its time and what it writes, no environment, and no network where the
 * system allows that. It is given a file that it cannot open itself: only what comes through its input.
 */
function start(program: string, audio: Audio, to: Transcoding): ChildProcess {
  const limits = `ulimit -c 0; ulimit -v ${MEMORY_KIB}; ulimit -t ${CPU_SECONDS}; ulimit -f ${blocksOf(audio)}`
  const child = spawn('/bin/sh', ['-c', `${limits}; ${ALONE}`, 'sh', program, ...argumentsFor(audio, to)], {
    env: { LC_ALL: 'C', TMPDIR: tmpdir() },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  child.on('spawn', () => {
    try {
      setPriority(child.pid!, NICENESS)
    } catch {
      // It has ended already, or may not be made to wait.
    }
  })
  return child
}

/** Without the right to a network of its own, it has at least no protocol for any. */
const ALONE = `alone='/usr/bin/unshare --map-root-user --net'
$alone /bin/true 2>/dev/null || alone=
exec $alone "$@"`

/** Blocks of 512 bytes that its file beside it may have. */
function blocksOf({ decodedBytes }: Audio): number {
  return Math.ceil(decodedBytes / 512) + 1024
}

function argumentsFor({ format }: Audio, { format: made, channels }: Transcoding): string[] {
  // Their ends may say what is in them: a file beside it, which has no name, lets it go back.
  const mayGoBack = format === 'mp4' || format === 'other'
  // Gaps are silence, as long as times are those of one stream: an Ogg file may hold several, one behind another.
  const filter = format === 'ogg' ? 'asetpts=N/SR/TB' : 'aresample=async=1:first_pts=0'
  const encoding = made === 'ogg' ? `-c:a libopus -b:a ${32 * channels}k -f ogg` : '-f s16le'
  return [
    '-nostdin -loglevel quiet -threads 1 -protocol_whitelist pipe,cache',
    `-format_whitelist ${DEMUXERS} -codec_whitelist ${DECODERS}`,
    mayGoBack ? '-read_ahead_limit -1 -i cache:pipe:0' : '-i pipe:0',
    `-map 0:a:0 -map_metadata -1 -map_chapters -1 -af ${filter}`,
    `-ar ${SAMPLE_RATE} -ac ${channels} -t ${SECONDS_MAX} ${encoding} pipe:1`,
  ].flatMap((flags) => flags.split(' '))
}

/** A sink of the format: samples get their head when all of them are here. */
function sinkFor<Kept>({ format, channels }: Transcoding, sink: PartSink<Kept>): OutputSink<Kept> {
  let bytes = 0
  return {
    async write(chunk) {
      bytes += chunk.length
      await sink.write([chunk])
    },
    finish() {
      if (bytes === 0) throw unreadable()
      const isWav = format === 'wav'
      return sink.finish(isWav ? wavHeadOf({ sampleRate: SAMPLE_RATE, channels }, bytes) : new Uint8Array(0))
    },
  }
}

interface OutputSink<Kept> {
  write(chunk: Uint8Array): Promise<void>
  finish(): Promise<Kept>
}

/**
 * Sends bytes through a process.
 *
 * @throws GatewayError UNSUPPORTED_AUDIO_FORMAT when it fails; the reader's and the sink's errors; the signal's reason
 */
async function piped<Kept>(
  child: ChildProcess,
  bytes: AsyncGenerator<Uint8Array>,
  sink: OutputSink<Kept>,
  signal: AbortSignal,
): Promise<Kept> {
  const ended = new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(null))
    child.on('close', resolve)
  })
  const kill = () => child.kill('SIGKILL')
  signal.addEventListener('abort', kill, { once: true })
  try {
    const sending = feed(child, bytes)
    // Nothing may be sent any more once the body is given back, however much of it was read.
    sending.catch(kill)
    try {
      for await (const chunk of child.stdout!) await sink.write(chunk as Uint8Array)
    } catch (error) {
      kill()
      throw error
    } finally {
      await Promise.allSettled([sending, ended])
    }
    signal.throwIfAborted()
    await sending
    if ((await ended) !== 0) throw unreadable()
    return await sink.finish()
  } finally {
    signal.removeEventListener('abort', kill)
  }
}

/** Sends bytes as fast as they are taken, until no more are. */
async function feed({ stdin }: ChildProcess, bytes: AsyncGenerator<Uint8Array>): Promise<void> {
  const input = stdin!
  let isOpen = true
  let proceed = () => {}
  input.on('error', () => {})
  input.on('close', () => {
    isOpen = false
    proceed()
  })
  input.on('drain', () => proceed())
  for await (const chunk of bytes) {
    if (!isOpen) return
    if (input.write(chunk)) continue
    const { promise, resolve } = Promise.withResolvers<void>()
    proceed = resolve
    if (isOpen) await promise
  }
  input.end()
}

/** Lets a few run at a time, in their order. */
class Turns {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  async take<Result>(signal: AbortSignal, run: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) this.#free -= 1
    else await this.#wait(signal)
    try {
      return await run()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(begin), 1)
        reject(signal.reason)
      }
      this.#waiting.push(begin)
      signal.addEventListener('abort', leave, { once: true })
    })
  }
}
