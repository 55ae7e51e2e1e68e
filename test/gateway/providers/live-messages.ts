/**
 * Messages of each protocol as its provider documents them: `item_1` and `hello` stand for what differs. The sources
 * are those of the tests of each provider.
 */
const DEEPGRAM: readonly object[] = [
  {
    type: 'Results',
    channel_index: [0, 1],
    start: 1,
    duration: 2,
    is_final: true,
    speech_final: true,
    from_finalize: false,
    channel: {
      alternatives: [
        {
          transcript: 'hello',
          confidence: 0.9,
          languages: ['en'],
          words: [
            { word: 'hello', punctuated_word: 'Hello.', start: 1, end: 1.5, confidence: 0.9, speaker: 0 },
          ],
        },
      ],
    },
  },
  {
    type: 'Results',
    channel_index: [0, 1],
    start: 0,
    duration: 2,
    is_final: false,
    channel: { alternatives: [{ transcript: 'hello', confidence: 0.9, words: [] }] },
  },
  { type: 'SpeechStarted', channel: [0, 1], timestamp: 1.5 },
  { type: 'UtteranceEnd', channel: [0, 1], last_word_end: 1.5 },
  { type: 'Metadata', request_id: 'r', duration: 3, channels: 1 },
]

const OPENAI: readonly object[] = [
  { type: 'session.updated', session: { type: 'transcription' } },
  { type: 'input_audio_buffer.speech_started', audio_start_ms: 500, item_id: 'item_1' },
  { type: 'input_audio_buffer.speech_stopped', audio_end_ms: 1500, item_id: 'item_1' },
  { type: 'input_audio_buffer.committed', item_id: 'item_1', previous_item_id: 'item_0' },
  { type: 'conversation.item.input_audio_transcription.delta', item_id: 'item_1', delta: 'hello' },
  { type: 'conversation.item.input_audio_transcription.completed', item_id: 'item_1', transcript: 'hello' },
  {
    type: 'conversation.item.input_audio_transcription.failed',
    item_id: 'item_1',
    error: { code: 'audio_unintelligible', message: 'm' },
  },
  {
    type: 'error',
    error: { type: 'invalid_request_error', code: 'input_audio_buffer_commit_empty', message: 'm' },
  },
  { type: 'rate_limits.updated', rate_limits: [] },
]

export const LIVE_MESSAGES: Readonly<Record<string, readonly object[]>> = {
  assemblyai: [
    { type: 'Begin', id: 's', expires_at: 1_795_000_000 },
    {
      type: 'Turn',
      turn_order: 0,
      turn_is_formatted: false,
      end_of_turn: false,
      transcript: 'hello',
      end_of_turn_confidence: 0.2,
      words: [{ text: 'hello', start: 500, end: 900, confidence: 0.9, word_is_final: true, speaker: 'A' }],
    },
    {
      type: 'Turn',
      turn_order: 0,
      turn_is_formatted: true,
      end_of_turn: true,
      transcript: 'hello',
      end_of_turn_confidence: 0.9,
      words: [{ text: 'hello', start: 500, end: 900, confidence: 0.9, word_is_final: true }],
      language_code: 'en',
      language_confidence: 0.9,
      speaker_label: 'A',
    },
    { type: 'SpeechStarted', timestamp: 500 },
    { type: 'Silence', start_ms: 1000, end_ms: 2000 },
    { type: 'Heartbeat', total_audio_received_ms: 1000, total_duration_ms: 1000, realtime_factor: 1 },
    { type: 'SpeakerRevision', revisions: [] },
    { type: 'Warning', warning_code: 1, warning: 'w' },
    { type: 'Termination', audio_duration_seconds: 3, session_duration_seconds: 3 },
    { type: 'Error', error_code: 3006, error: 'e' },
  ],
  deepgram: DEEPGRAM,
  elevenlabs: [
    { message_type: 'session_started', session_id: 's', config: {} },
    { message_type: 'partial_transcript', text: 'hello' },
    { message_type: 'committed_transcript', text: 'hello' },
    {
      message_type: 'committed_transcript_with_timestamps',
      text: 'hello',
      language_code: 'en',
      words: [{ text: 'hello', start: 0.5, end: 0.9, type: 'word', logprob: -0.1 }],
    },
    { message_type: 'commit_throttled', error: 'e' },
    { message_type: 'transcriber_error', error: 'e' },
  ],
  sandbox: DEEPGRAM,
  gemini: [
    { setupComplete: {} },
    { serverContent: { interimInputTranscription: { text: 'hello' } } },
    { serverContent: { inputTranscription: { text: 'hello' } } },
    { serverContent: { generationComplete: true } },
    { serverContent: {}, voiceActivity: { type: 'ACTIVITY_END', audioOffset: '4.1s' } },
    { goAway: { timeLeft: '10s' } },
    { error: { code: 503, status: 'UNAVAILABLE', message: 'm' } },
  ],
  mistral: [
    { type: 'session.created', session: { request_id: 'r' } },
    { type: 'session.updated', session: {} },
    { type: 'transcription.text.delta', text: 'hello' },
    { type: 'transcription.language', audio_language: 'en' },
    { type: 'transcription.done', model: 'm', text: 'hello', usage: {}, language: null },
    { type: 'error', error: { message: 'e', code: 3804 } },
  ],
  openai: OPENAI,
  'openai-compatible': OPENAI,
}

/** Messages of vLLM, which `openai-compatible` speaks where an entry says so. */
export const VLLM_MESSAGES: readonly object[] = [
  { type: 'session.created', id: 's', created: 1 },
  { type: 'transcription.delta', delta: 'hello' },
  { type: 'transcription.done', text: 'hello', usage: { total_tokens: 3 } },
  { type: 'error', error: 'e', code: 'processing_error' },
]

/** Messages of Deepgram's models that tell turns. */
export const FLUX_MESSAGES: readonly object[] = [
  ...['StartOfTurn', 'Update', 'EagerEndOfTurn', 'TurnResumed', 'EndOfTurn'].map((event) => ({
    type: 'TurnInfo',
    event,
    turn_index: 0,
    audio_window_start: 0,
    audio_window_end: 2,
    transcript: 'hello',
    words: [{ word: 'hello', start: 1, end: 1.5, confidence: 0.9 }],
    end_of_turn_confidence: 0.5,
    languages: ['en'],
  })),
  {
    type: 'TurnInfo',
    event: 'Update',
    audio_window_start: 2,
    audio_window_end: 3,
    transcript: '',
    words: [],
  },
  { type: 'Connected', request_id: 'r', sequence_id: 0 },
  { type: 'Error', sequence_id: 1, code: 'INTERNAL_SERVER_ERROR', description: 'd' },
]

/** A model of each provider that transcribes live audio. */
export const LIVE_MODELS: Readonly<Record<string, string>> = {
  assemblyai: 'universal-3-6-pro',
  deepgram: 'nova-3',
  elevenlabs: 'scribe_v2_realtime',
  sandbox: 'morse-1',
  gemini: 'gemini-3.5-transcribe-live',
  mistral: 'voxtral-mini-transcribe-realtime-3',
  openai: 'gpt-4o-transcribe',
  'openai-compatible': 'large',
}
