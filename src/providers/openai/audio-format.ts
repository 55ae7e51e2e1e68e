/** Media type of each audio format that OpenAI makes; `pcm` is 24 kHz, 16 bit, little-endian, mono. */
export const AUDIO_MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['opus', 'audio/ogg'],
  ['aac', 'audio/aac'],
  ['flac', 'audio/flac'],
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
])
