import { speechForm } from '../../src/gateway/media/speech-form.ts'
import { SpeechTranscoder } from '../../src/gateway/media/speech-transcoder.ts'

/** Makes a wav file one of another format, as the gateway encodes speech. */
export async function encodedSpeech(wav: Buffer, format: string): Promise<Buffer> {
  const form = speechForm(format)
  if (form === null) throw new Error(`${format} is no format`)
  const transcoder = new SpeechTranscoder(null, form)
  try {
    const begun = await transcoder.push(wav)
    return Buffer.concat([Buffer.from(begun), await transcoder.end()])
  } finally {
    transcoder.free()
  }
}
