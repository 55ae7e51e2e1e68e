import type { Audio, AudioReader } from '../../../contracts/audio.ts'
import { id3v2Bytes } from '../format.ts'
import { ByteStream } from './byte-stream.ts'
import { openFlac } from './flac-sound.ts'
import { openMp3 } from './mp3-sound.ts'
import { openMp4 } from './mp4-sound.ts'
import { openOgg } from './ogg-sound.ts'
import { type Sound, Uncuttable } from './sound.ts'
import { openWav } from './wav-sound.ts'
import { openWebm } from './webm-sound.ts'

/**
 * Reads the sound of audio packet by packet while `use` runs, from the beginning to wherever that stops.
 *
 * @throws Uncuttable; the reader's errors; what `use` throws
 */
export async function withSound<Result>(
  reader: AudioReader,
  audio: Audio,
  signal: AbortSignal,
  use: (sound: Sound) => Promise<Result>,
): Promise<Result> {
  const stream = new ByteStream(reader.bytes(audio, signal), signal)
  try {
    return await use(await openRecording(stream, reader, audio, signal))
  } finally {
    await stream.close()
  }
}

async function openRecording(
  stream: ByteStream,
  reader: AudioReader,
  audio: Audio,
  signal: AbortSignal,
): Promise<Sound> {
  await passTags(stream)
  switch (audio.format) {
    case 'mp3':
      return openMp3(stream)
    case 'wav':
      return openWav(stream)
    case 'flac':
      return openFlac(stream)
    case 'ogg':
      return openOgg(stream)
    case 'webm':
      return openWebm(stream)
    case 'mp4':
      return openMp4(stream, reader, audio, signal)
    case 'mpeg':
    case 'other':
      throw new Uncuttable('its container is none of those that can be')
  }
}

/** Passes over the tags that mp3 and flac may have in front; the other containers begin otherwise. */
async function passTags(stream: ByteStream): Promise<void> {
  const next = async () => id3v2Bytes(await stream.fill(10), 0)
  for (let tag = await next(); tag > 0; tag = await next()) await stream.seek(tag)
}
