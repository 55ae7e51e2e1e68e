import type { Audio, AudioFormat, AudioReader, AudioRef } from '../../contracts/audio.ts'
import type { MediaProbe } from '../../contracts/media.ts'
import { toMilliseconds } from '../../contracts/seconds.ts'
import { probeFlac } from './flac.ts'
import { DETECT_BYTES, formByMagic, id3v2Bytes, taggedForm } from './format.ts'
import { type Measure, UNKNOWN } from './measure.ts'

import { probeMp3 } from './mp3.ts'
import { probeMp4 } from './mp4.ts'
import { probeMpegSystem } from './mpeg-system.ts'
import { probeOgg } from './ogg.ts'
import { probeWav } from './wav.ts'
import { probeWebm } from './webm.ts'
import { AudioWindow, OutOfReach, RANGE_BYTES } from './window.ts'

/** Tags in front of the audio; a file has one, seldom two. */
const TAGS_MAX = 8
const CHANNELS_MAX = 255
/** First bytes that tell most formats. */
const HEAD_BYTES = 4 * 1024

/**
 * The containers are read by our own code. A tag library was measured against the same fixtures: it had no duration for
 * recordings without a length (WebM, FLAC), RF64 and a data chunk of size 0, counted two channels in mono AAC, and took
 * a first stream for the whole of a chained Ogg; with these to be written anyway, the rest is the smaller part.
 *
 * Reads at most four ranges of 256 KiB, and one pass over the audio when these do not settle it.
 */
export function createMediaProbe({ reader }: { reader: AudioReader }): MediaProbe {
  return {
    async probe(audio: AudioRef, signal: AbortSignal): Promise<Audio> {
      const window = new AudioWindow(reader, audio, signal)
      try {
        const { format, start } = await findStart(window)
        const measured = await measure(window, format, start)
        return { ...audio, format, ...credible(measured, audio.decodedBytes) }
      } finally {
        await window.close()
      }
    },

    async detect(audio: AudioRef, signal: AbortSignal): Promise<AudioFormat | null> {
      for (const bytes of [HEAD_BYTES, DETECT_BYTES]) {
        const format = formByMagic(await reader.range(audio, 0, bytes, signal))
        if (format !== null || audio.decodedBytes <= bytes) return format
      }
      return null
    },
  }
}

/** The format, and where it begins behind tags that may be longer than the first range. */
async function findStart(window: AudioWindow): Promise<{ format: AudioFormat; start: number }> {
  let start = 0
  let head = await window.from(0, RANGE_BYTES)
  for (let count = 0; count < TAGS_MAX; count++) {
    const tagBytes = id3v2Bytes(head, 0)
    if (tagBytes === 0) break
    start += tagBytes
    head = await window.from(start, DETECT_BYTES)
  }
  return { format: (start > 0 ? taggedForm(head) : formByMagic(head)) ?? 'other', start }
}

async function measure(window: AudioWindow, format: AudioFormat, start: number): Promise<Measure> {
  try {
    switch (format) {
      case 'mpeg':
        return await probeMpegSystem(window)
      case 'wav':
        return await probeWav(window)
      case 'mp3':
        return await probeMp3(window, start)
      case 'mp4':
        return await probeMp4(window)
      case 'webm':
        return await probeWebm(window)
      case 'ogg':
        return await probeOgg(window)
      case 'flac':
        return await probeFlac(window, start)
      case 'other':
        return UNKNOWN
    }
  } catch (thrown) {
    if (thrown instanceof OutOfReach) return UNKNOWN
    throw thrown
  }
}

/** A second for every byte is far beyond any codec: who claims more has made the header up. */
function credible({ durationSeconds, channels }: Measure, bytes: number): Measure {
  const isLength = durationSeconds !== null && durationSeconds >= 0 && durationSeconds <= bytes
  const isCount = channels !== null && channels > 0 && channels <= CHANNELS_MAX
  return {
    durationSeconds: isLength ? toMilliseconds(durationSeconds) : null,
    channels: isCount ? channels : null,
  }
}
