-- Takes jobs of a partition up, and before that puts back those whose lease is over.
--
-- KEYS partition never
-- ARGV token limit per_workspace lease_ms sweeps stalled_max poison
--      keep_transcription_ms keep_queue_ms keep_dead_ms
-- Reply {more, job, …}: each job as fields and values; `more` = 1 when asking again may find others
--
-- A claim of the same token takes nothing new: the answer of the first one was lost, and what it took is handed out
-- now. Without that, jobs would wait for their leases, and count as stalled, because a connection broke.
--
-- `sweeps` = '0': nothing is put back, so that a claim in several parts does not take over what it has just taken.
--
-- Every part is bounded, because others wait. A workspace that has all the running jobs that it may have is throttled
-- until one of them ends, or until a claim comes that lets it have more, so that many such cost nothing.

local SWEPT_AT_ONCE = 50
local VISITS_MAX = 200
-- Of ten jobs six are of the first mode, three of the second, one of the third. The turn of a mode that has none passes
-- to the one behind it, so that the others keep their proportion.
local SEQUENCE = { 1, 2, 1, 1, 2, 1, 3, 1, 2, 1 }

local token, limit, per_workspace = key('claim', ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lease_ms, stalled_max, poison, keep = ARGV[4], tonumber(ARGV[6]), ARGV[7], retention(8)

local function put_back(job, ...)
  change(job, 'queued', ...)
  queue(job, 0)
end

local function take_again(taken)
  local jobs = { 1 }
  for id, fence in string.gmatch(taken, '(%S+) (%d+)') do
    local job = read_job(id)
    local is_held = job and job.status == 'processing' and job.fence == tonumber(fence)
    if is_held and #jobs <= limit then
      lease(job, lease_ms)
      table.insert(jobs, show_job(id))
    elseif is_held then
      stop_running(job)
      put_back(job)
    end
  end
  -- This answer may be lost as well.
  redis.call('PEXPIRE', token, lease_ms)
  return jobs
end

local function end_stalled(job)
  local stalled = digits(job.stalled + 1)
  if job.is_cancelled then
    abandon(job, 'cancelled', keep, 'strays', stalled)
  elseif job.stalled + 1 >= stalled_max then
    abandon(job, 'failed', keep, 'strays', stalled, 'error', poison)
  else
    put_back(job, 'strays', stalled)
  end
end

local function end_delay(id, job)
  if job then
    job.number = next_number()
    redis.call('HSET', key('job', id), 'number', job.number)
    make_ready(job)
  else
    stop_waiting(id, nil)
  end
  redis.call('ZREM', key('delayed'), id)
end

-- Returns how many there were of what there was most.
local function sweep()
  local function over(name)
    return redis.call('ZRANGEBYSCORE', key(name), '-inf', digits(now_ms), 'LIMIT', 0, SWEPT_AT_ONCE)
  end
  local stalled, due = over('leases'), over('delayed')
  for _, lease in ipairs(stalled) do
    local id, workspace = string.match(lease, '^(%S+) (.*)$')
    stop_running({ id = id, workspace = workspace })
    local job = read_job(id)
    if job then end_stalled(job) end
  end
  for _, id in ipairs(due) do end_delay(id, read_job(id)) end
  local fewer = '(' .. digits(per_workspace)
  local throttled = redis.call('ZRANGEBYSCORE', key(THROTTLED), '-inf', fewer, 'LIMIT', 0, SWEPT_AT_ONCE)
  for _, workspace in ipairs(throttled) do unthrottle(workspace) end
  return math.max(#stalled, #due, #throttled)
end

local visits = 0

-- The job whose turn it is, taken off its list; nil: the mode has none.
local function next_of(mode)
  local workspaces = round_robin(mode)
  while visits < VISITS_MAX do
    local workspace = redis.call('ZRANGE', workspaces, 0, 0)[1]
    if not workspace then return nil end
    visits = visits + 1
    if tonumber(redis.call('HGET', key('running'), workspace) or 0) >= per_workspace then
      redis.call('ZADD', key(THROTTLED), digits(per_workspace), workspace)
      redis.call('ZREM', workspaces, workspace)
    else
      local ready = key('ready', mode, workspace)
      local id = redis.call('ZRANGE', ready, 0, 0)[1]
      local job = id and read_job(id)
      if id then
        stop_waiting(id, job)
        redis.call('ZREM', ready, id)
      end
      redis.call('ZREM', workspaces, workspace)
      if exists(ready) then serve(workspace, mode) end
      if job then
        redis.call('HINCRBY', key('running'), workspace, 1)
        return job
      end
    end
  end
end

local function next_job()
  local turn, has_none = tonumber(redis.call('HGET', partition, 'turn') or 0), {}
  for passed = 0, #SEQUENCE - 1 do
    local mode = MODES[SEQUENCE[(turn + passed) % #SEQUENCE + 1]]
    local job = not has_none[mode] and next_of(mode)
    if job then
      redis.call('HSET', partition, 'turn', digits(turn + passed + 1))
      return job
    end
    has_none[mode] = true
  end
end

local taken = redis.call('GET', token)
if taken then return take_again(taken) end

local swept = ARGV[5] == '1' and sweep() or 0
local jobs, fences = { 0 }, {}
while #fences < limit do
  local job = next_job()
  if not job then break end
  local name = key('job', job.id)
  redis.call('HSETNX', name, 'started', digits(now_ms))
  redis.call('HDEL', name, 'ending')
  job.fence = redis.call('HINCRBY', name, 'fence', 1)
  change(job, 'processing')
  lease(job, lease_ms)
  table.insert(jobs, show_job(job.id))
  table.insert(fences, job.id .. ' ' .. digits(job.fence))
end
if #fences > 0 then redis.call('SET', token, table.concat(fences, ' '), 'PX', lease_ms) end
if #fences == limit or visits == VISITS_MAX or swept == SWEPT_AT_ONCE then jobs[1] = 1 end
return jobs
