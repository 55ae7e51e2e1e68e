// Makes test/fixtures/media: short synthetic tones in every container and variant that the media probe knows,
// and ffprobe.json, what ffprobe says of each. The files are committed; run this only to add or change one:
//
//   node scripts/make-media-fixtures.mjs        needs ffmpeg and ffprobe 5 or newer on the PATH
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(new URL('../test/fixtures/media/', import.meta.url))
const path = (name) => join(FOLDER, name)
const read = (name) => readFileSync(path(name))
const write = (name, ...parts) => writeFileSync(path(name), Buffer.concat(parts))

const tone = (seconds, rate = 16_000, channels = 1) => [
  ...['-f', 'lavfi', '-i', `sine=frequency=440:sample_rate=${rate}:duration=${seconds}`],
  ...['-ac', String(channels)],
]
/** Half a second of tone, half a second of noise in turn: what makes a variable bit rate vary. */
const varied = (seconds, rate = 44_100) => [
  ...['-f', 'lavfi', '-i'],
  `aevalsrc=if(lt(mod(t\\,1)\\,0.5)\\,0.2*sin(2764*t)\\,0.5*(random(0)-0.5)):s=${rate}:d=${seconds}`,
]
const picture = (seconds) => ['-f', 'lavfi', '-i', `testsrc=size=64x48:rate=10:duration=${seconds}`]

/** Output file and what stands between `ffmpeg` and it. */
const ENCODED = [
  ['wav-u8-mono.wav', ...tone(2, 8_000), '-c:a', 'pcm_u8'],
  ['wav-s16-stereo.wav', ...tone(1.3, 8_000, 2), '-c:a', 'pcm_s16le'],
  ['wav-s24-mono.wav', ...tone(1.5, 8_000), '-c:a', 'pcm_s24le'],
  ['wav-s32-stereo.wav', ...tone(0.7, 8_000, 2), '-c:a', 'pcm_s32le'],
  ['wav-f32-mono.wav', ...tone(1.1, 8_000), '-c:a', 'pcm_f32le'],
  ['wav-f64-mono.wav', ...tone(0.5, 8_000), '-c:a', 'pcm_f64le'],
  ['wav-extensible-5.1.wav', ...tone(0.6, 8_000, 6), '-c:a', 'pcm_s16le'],
  ['wav-mulaw.wav', ...tone(2.2, 8_000), '-c:a', 'pcm_mulaw'],
  ['wav-ima-adpcm.wav', ...tone(2.4, 8_000), '-c:a', 'adpcm_ima_wav'],
  ['wav-ms-adpcm.wav', ...tone(2.4, 8_000, 2), '-c:a', 'adpcm_ms'],
  ['wav-mp3.wav', ...tone(2.5, 16_000), '-c:a', 'libmp3lame', '-b:a', '32k'],
  ['wav-rf64.wav', ...tone(1.2, 8_000), '-c:a', 'pcm_s16le', '-rf64', 'always'],

  ['mp3-cbr-info.mp3', ...tone(4, 44_100, 2), '-b:a', '64k'],
  ['mp3-cbr-bare.mp3', ...tone(4.2, 44_100), '-b:a', '32k', '-write_xing', '0', '-id3v2_version', '0'],
  ['mp3-vbr-xing.mp3', ...varied(5), '-q:a', '6'],
  ['mp3-vbr-bare.mp3', ...varied(5), '-q:a', '6', '-write_xing', '0', '-id3v2_version', '0'],
  ['mp3-mpeg2.mp3', ...tone(3.3, 22_050), '-b:a', '24k'],
  ['mp3-mpeg25.mp3', ...tone(3.7, 8_000), '-b:a', '8k', '-write_xing', '0'],
  ['mp3-id3v1.mp3', ...tone(2.6, 32_000), '-b:a', '32k', '-write_id3v1', '1', '-metadata', 'title=tone'],
  ['mp3-layer2.mp3', ...tone(2, 32_000), '-c:a', 'mp2', '-b:a', '32k', '-f', 'mp2'],

  ['mp4-moov-end.m4a', ...tone(4, 44_100, 2), '-c:a', 'aac', '-b:a', '32k'],
  ['mp4-moov-first.m4a', ...tone(3.5, 44_100), '-c:a', 'aac', '-b:a', '32k', '-movflags', '+faststart'],
  ['mp4-8khz.m4a', ...tone(3, 8_000), '-c:a', 'aac', '-b:a', '16k'],
  ['mp4-alac.m4a', ...tone(1, 8_000, 2), '-c:a', 'alac'],
  ['mp4-opus.mp4', ...tone(3, 48_000, 2), '-c:a', 'libopus', '-b:a', '24k'],
  ['mp4-video.mp4', ...picture(3), ...tone(2.5, 44_100), '-c:v', 'mpeg4', '-c:a', 'aac', '-b:a', '32k'],
  ['mp4-quicktime.mov', ...tone(1, 8_000, 2), '-c:a', 'pcm_s16le'],
  [
    'mp4-fragments.mp4',
    ...[...tone(6, 44_100), '-c:a', 'aac', '-b:a', '32k'],
    ...['-movflags', '+frag_keyframe+empty_moov', '-frag_duration', '1000000'],
  ],
  [
    'mp4-fragments-sidx.mp4',
    ...[...tone(5, 44_100, 2), '-c:a', 'aac', '-b:a', '32k', '-frag_duration', '1000000'],
    ...['-movflags', '+empty_moov+default_base_moof+global_sidx+skip_trailer'],
  ],
  [
    'mp4-fragments-video.mp4',
    ...[...picture(4), ...tone(4, 44_100), '-c:v', 'mpeg4', '-g', '10', '-c:a', 'aac', '-b:a', '32k'],
    ...['-movflags', '+frag_keyframe+empty_moov+skip_trailer'],
  ],

  ['webm-opus.webm', ...tone(4, 48_000), '-c:a', 'libopus', '-b:a', '24k'],
  ['webm-vorbis.webm', ...tone(3, 44_100, 2), '-c:a', 'libvorbis', '-b:a', '48k'],
  [
    'webm-video.webm',
    ...picture(2),
    ...tone(2.4, 48_000),
    '-c:v',
    'libvpx',
    '-b:v',
    '20k',
    '-c:a',
    'libopus',
  ],
  [
    'webm-live.webm',
    ...tone(5, 48_000, 2),
    '-c:a',
    'libopus',
    '-b:a',
    '24k',
    '-live',
    '1',
    '-cluster_time_limit',
    '1000',
  ],
  ['webm-aac.mkv', ...tone(3, 44_100), '-c:a', 'aac', '-b:a', '32k'],

  ['ogg-opus-mono.ogg', ...tone(4, 48_000), '-c:a', 'libopus', '-b:a', '16k'],
  ['ogg-opus-stereo.ogg', ...tone(3, 48_000, 2), '-c:a', 'libopus', '-b:a', '24k', '-frame_duration', '60'],
  ['ogg-vorbis.ogg', ...tone(3.4, 44_100, 2), '-c:a', 'libvorbis', '-b:a', '48k'],
  ['ogg-vorbis-mono.ogg', ...tone(6, 16_000), '-c:a', 'libvorbis', '-page_duration', '500000'],
  ['ogg-flac.ogg', ...tone(1, 8_000), '-c:a', 'flac'],
  ['ogg-speex.ogg', ...tone(2, 16_000), '-c:a', 'libspeex'],

  ['flac-mono.flac', ...tone(3, 16_000), '-c:a', 'flac'],
  ['flac-stereo-24.flac', ...tone(1.5, 16_000, 2), '-c:a', 'flac', '-sample_fmt', 's32'],

  ['none-adts.aac', ...tone(1), '-c:a', 'aac', '-b:a', '24k', '-f', 'adts'],
  ['none-aiff.aiff', ...tone(0.3, 8_000)],
  ['none-avi.avi', ...picture(0.5), ...tone(0.5, 8_000), '-c:v', 'mpeg4', '-c:a', 'libmp3lame', '-b:a', '8k'],
]

/**
 * Written to a pipe, where ffmpeg cannot go back to fill in lengths: as recorders and streaming encoders
 * leave them.
 */
const PIPED = [
  ['wav-size-max.wav', ...tone(1.4, 8_000), '-c:a', 'pcm_s16le', '-f', 'wav'],
  ['webm-piped.webm', ...varied(5, 48_000), '-c:a', 'libopus', '-b:a', '24k', '-f', 'webm'],
  ['webm-piped-vorbis.webm', ...tone(3, 44_100), '-c:a', 'libvorbis', '-b:a', '48k', '-f', 'webm'],
  [
    'webm-piped-video.webm',
    ...picture(2),
    ...tone(2.4, 48_000),
    '-c:v',
    'libvpx',
    '-b:v',
    '20k',
    '-c:a',
    'libopus',
    '-f',
    'webm',
  ],
  ['flac-piped.flac', ...tone(2.7, 16_000), '-c:a', 'flac', '-f', 'flac'],
]

const QUIET = ['-y', '-hide_banner', '-loglevel', 'error', '-fflags', '+bitexact', '-flags', '+bitexact']

for (const [name, ...args] of ENCODED) {
  execFileSync('ffmpeg', [...QUIET, ...args, '-flags', '+bitexact', '-fflags', '+bitexact', path(name)])
}
for (const [name, ...args] of PIPED) {
  write(
    name,
    execFileSync('ffmpeg', [...QUIET, ...args, '-fflags', '+bitexact', '-'], { maxBuffer: 1 << 24 }),
  )
}
derive()
record()

/** Variants that ffmpeg does not write. */
function derive() {
  const wav = read('wav-s16-stereo.wav')
  const dataAt = wav.indexOf('data')
  const sized = (bytes, size) => {
    const copy = Buffer.from(bytes)
    copy.writeUInt32LE(size, dataAt + 4)
    return copy
  }
  write('wav-size-zero.wav', sized(wav, 0))
  write('wav-truncated.wav', wav.subarray(0, dataAt + 8 + 16_000))
  // A chunk of odd length in front, padded to an even one.
  const junk = Buffer.from('JUNK\x05\0\0\0hello\0', 'latin1')
  write('wav-odd-chunk.wav', wav.subarray(0, 12), junk, wav.subarray(12))

  const bare = read('mp3-vbr-bare.mp3')
  write('mp3-cut.mp3', bare.subarray(700))
  write('mp3-vbr-vbri.mp3', vbriFrame(bare), bare)
  const large = id3v2(Buffer.alloc(300_000, 'synthetic cover '))
  write('mp3-cover.mp3', large, read('mp3-cbr-bare.mp3'))
  write('flac-id3v2.flac', id3v2(Buffer.alloc(2_000, 'c')), read('flac-mono.flac'))

  write('ogg-chained.ogg', read('ogg-opus-mono.ogg'), read('ogg-opus-stereo.ogg'))
  // A stream that was joined late: its headers, then nothing until two seconds in.
  const pages = oggPages(read('ogg-opus-mono.ogg'))
  const late = pages.filter((page, index) => index < 2 || page.readBigInt64LE(6) > 96_000n)
  write('ogg-joined-late.ogg', ...late)
}

/** The VBRI header frame of Fraunhofer's encoder, which counts bytes and frames of what follows. */
function vbriFrame(audio) {
  const frame = Buffer.alloc(417)
  audio.copy(frame, 0, 0, 4)
  frame[2] = 0x90 // 128 kbit/s at 44.1 kHz: 417 bytes
  frame.write('VBRI', 36, 'latin1')
  frame.writeUInt16BE(1, 40)
  frame.writeUInt32BE(audio.length + frame.length, 46)
  frame.writeUInt32BE(191, 50)
  frame.writeUInt16BE(0, 54)
  frame.writeUInt16BE(1, 56)
  frame.writeUInt16BE(2, 58)
  return frame
}

/** An ID3v2.3 tag with one picture frame. */
function id3v2(cover) {
  const frame = Buffer.concat([Buffer.from('\0image/png\0\x03\0', 'latin1'), cover])
  const head = Buffer.from('APIC\0\0\0\0\0\0', 'latin1')
  head.writeUInt32BE(frame.length, 4)
  const length = head.length + frame.length
  const size = [21, 14, 7, 0].map((shift) => (length >> shift) & 0x7f)
  return Buffer.concat([Buffer.from('ID3\x03\0\0', 'latin1'), Buffer.from(size), head, frame])
}

function oggPages(bytes) {
  const pages = []
  for (let at = 0; at < bytes.length; ) {
    const next = bytes.indexOf('OggS', at + 4)
    pages.push(bytes.subarray(at, next < 0 ? bytes.length : next))
    at = next < 0 ? bytes.length : next
  }
  return pages
}

/**
 * ffprobe's word for every file, and the seconds of audio that ffmpeg decodes out of it: ffprobe has no
 * duration for some, for others it guesses from the bit rate or counts the picture too.
 */
function record() {
  const probe = (name, ...args) => {
    const output = execFileSync('ffprobe', ['-v', 'quiet', '-of', 'json', ...args, path(name)], {
      maxBuffer: 1 << 26,
    })
    return JSON.parse(output)
  }
  const files = {}
  for (const name of execFileSync('ls', [FOLDER]).toString().split('\n').filter(Boolean)) {
    if (name === 'ffprobe.json') continue
    const { format, streams } = probe(name, '-show_format', '-show_streams')
    const audio = streams.find((stream) => stream.codec_type === 'audio')
    const pcm = [
      '-loglevel',
      'quiet',
      '-i',
      path(name),
      '-map',
      'a:0',
      '-ac',
      '1',
      '-ar',
      '8000',
      '-f',
      's16le',
      '-',
    ]
    const decoded = execFileSync('ffmpeg', pcm, { maxBuffer: 1 << 24 })
    files[name] = {
      format: format.format_name,
      codec: audio.codec_name,
      channels: audio.channels,
      duration_seconds: format.duration === undefined ? null : Number(format.duration),
      decoded_seconds: decoded.length / 16_000,
    }
  }
  writeFileSync(path('ffprobe.json'), `${JSON.stringify(files, null, 2)}\n`)
}
