-- Queues a job, unless its idempotency key was used before.
--
-- KEYS partition never
-- ARGV id kind mode workspace app event spec slot_id fingerprint keep_ms
-- Reply {'new', ms} | {'accepted', replayed, id, job} | {'reused'}: `job` as fields and values, empty when its time is
-- over; `ms` is when it was submitted
--
-- An empty `event`: it will announce nothing; an empty `slot_id`: there is no idempotency key. The slot has no end of its
-- own as long as the record is there. Sent again with its id a job is the one that is there.

local id, workspace = ARGV[1], ARGV[4]
local slot_id = ARGV[8]
local slot = key('slot', workspace, slot_id)

if slot_id ~= '' then
  local first, fingerprint = unpack(redis.call('HMGET', slot, 'job', 'fingerprint'))
  if first and fingerprint ~= ARGV[9] then return { 'reused' } end
  if first then return { 'accepted', first == id and 0 or 1, first, show_job(first) } end
end

if not exists(key('job', id)) then
  local job = { id = id, kind = ARGV[2], mode = ARGV[3], workspace = workspace, fence = 0, number = next_number() }
  change(job, 'queued', 'kind', job.kind, 'mode', job.mode, 'workspace', workspace, 'app', ARGV[5], 'event', ARGV[6],
    'spec', ARGV[7], 'created', digits(now_ms), 'number', job.number)
  redis.call('ZADD', key('index'), digits(now_ms), id)
  if job.kind == 'transcription' then redis.call('ZADD', app_list(workspace, ARGV[5]), 0, id) end
  queue(job, 0)
  if slot_id ~= '' then
    redis.call('HSET', key('job', id), 'slot', slot_id)
    redis.call('HSET', slot, 'job', id, 'fingerprint', ARGV[9], 'keep_until', digits(now_ms + ARGV[10]))
  end
  return { 'new', digits(now_ms) }
end
return { 'accepted', 0, id, show_job(id) }
