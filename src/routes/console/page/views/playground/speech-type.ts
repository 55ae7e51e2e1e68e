const EXTENSIONS: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/mp3': 'mp3',
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/ogg': 'ogg',
  'audio/opus': 'opus',
  'audio/flac': 'flac',
  'audio/aac': 'aac',
  'audio/mp4': 'm4a',
  'audio/webm': 'webm',
  'audio/pcm': 'pcm',
  'audio/l16': 'pcm',
}

/** What a file with audio of this media type ends with; `audio` where it is not known. */
export function extensionOf(mediaType: string): string {
  const [bare = ''] = mediaType.toLowerCase().split(';')
  return EXTENSIONS[bare.trim()] ?? 'audio'
}
