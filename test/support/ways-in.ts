import { multipart } from './bodies.ts'

export interface Sent {
  readonly type: string
  readonly body: Buffer
  readonly query?: string
}

/** Every way in which audio can be handed in, but by URL, each with the language `en`. */
export function waysIn(wav: Buffer): Record<string, Sent> {
  const base64 = wav.toString('base64')
  const json = (value: object): Sent => ({
    type: 'application/json',
    body: Buffer.from(JSON.stringify({ ...value, language: 'en' })),
  })
  const form = (parts: Parameters<typeof multipart>[0]): Sent => {
    const { contentType, body } = multipart(parts)
    return { type: contentType, body }
  }
  const file = { name: 'file', filename: 'hello.wav', type: 'audio/wav', body: wav }
  const language = { name: 'language', body: 'en' }
  const escaped = json({ audio: { base64 } })
  return {
    'multipart, field before': form([language, file]),
    'multipart, field after': form([file, language]),
    'multipart, part named audio, no filename': form([{ name: 'audio', body: wav }, language]),
    'multipart, purpose behind the file': form([file, { name: 'purpose', body: '' }, language]),
    'audio.base64': json({ audio: { base64, media_type: 'audio/wav' } }),
    'audio.data': json({ language: 'en', audio: { data: base64 } }),
    'audio.data as data URL': json({ audio: { filename: 'a.wav', data: `data:audio/wav;base64,${base64}` } }),
    'audio as a string': json({ audio: base64 }),
    audio_base64: json({ audio_base64: base64 }),
    'base64 with escaped slashes': {
      ...escaped,
      body: Buffer.from(escaped.body.toString().replaceAll('/', '\\/')),
    },
    'raw body': { type: 'audio/wav', body: wav, query: '?language=en' },
    'raw octets': { type: 'application/octet-stream', body: wav, query: '?language=en' },
  }
}
