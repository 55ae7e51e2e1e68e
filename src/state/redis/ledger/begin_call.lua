-- Claims an idempotency slot and sets money aside for a call: both or neither, and either may be asked alone.
--
-- KEYS slot void account grants spent reservations leases charged end_user
-- ARGV token fingerprint slot_lease_ms slot_ttl_ms
--      reserves key_id platform spend lease_ms key_budget workspace_budget
--      grant_id grant trial trial_ends_ms
--      claim end_user_account end_user_budget
-- Reply {'begun'} | {'running'} | {'burned'} | {'stored', fingerprint, result} | {'refused', why}
--
-- An empty `fingerprint` asks for no slot, `reserves` = '0' for no money; an empty budget, grant_id or trial: there is
-- none. Amounts are whole micro-USD. A slot whose lease ran out is burned, not free: the node that held it may have
-- reached the provider before it died. Its key outlives the lease by the time that a burned slot is remembered, so
-- burning need not touch that. A token that the slot or the reservations know already began before: its answer was
-- lost. Reservations past their lease stay charged and are only counted; a few at a time, because others wait.
--
-- `claim` = '0': the token is used once. Else it is a job's, and its reservation passes from claim to claim: a later one
-- takes it over as it is, an earlier one is refused. One that was charged, or whose lease ended, is in `charged` until
-- the score there, and sets nothing aside any more.
--
-- An empty `end_user_account`: no end user has a budget. `end_user` is the month and the micro-USD that it spent then,
-- which the next month begins anew. Its account stands behind the key in the reservation.

local SWEPT_AT_ONCE = 20
local SPENT_TTL_MS = 32 * 86400000
local CHARGED_MS = 30 * 86400000

local slot, void, account, grants, spent, reservations, leases, charged, end_user = unpack(KEYS)
local token, fingerprint, key_id = ARGV[1], ARGV[2], ARGV[6]
local platform, spend = tonumber(ARGV[7]), tonumber(ARGV[8])
local claim, end_user_account = tonumber(ARGV[16]), ARGV[17]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whole and without an exponent. Zero is added because a negative zero is no integer to Redis.
local function digits(number) return string.format('%.0f', number + 0) end
local function amount(hash, field) return tonumber(redis.call('HGET', hash, field) or 0) end
local function add(hash, field, number) redis.call('HINCRBY', hash, field, digits(number)) end

-- The lease of a reservation is over: it stays charged as it is.
local function expire(expired, lease_until_ms)
  local by, reserved = string.match(redis.call('HGET', reservations, expired) or '', '^(%d+) %S+ (%d+)')
  redis.call('HDEL', reservations, expired)
  redis.call('ZREM', leases, expired)
  -- A record that was lost must not keep the workspace from calling.
  if not by then return end
  add(account, 'reserved', -tonumber(reserved))
  add(account, 'expired_count', 1)
  add(account, 'expired', tonumber(reserved))
  if by == '0' then return end
  redis.call('ZADD', charged, digits(lease_until_ms + CHARGED_MS), expired)
  redis.call('PEXPIRE', charged, CHARGED_MS)
end

-- The month in UTC as yyyy-mm: days since a first of March, so that a leap day is the last of its year.
local function month_of(ms)
  local days = math.floor(ms / 86400000) + 719468
  local era, day = math.floor(days / 146097), days % 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  local month = math.floor((5 * (day - 365 * year - math.floor(year / 4) + math.floor(year / 100)) + 2) / 153) + 3
  if month > 12 then year, month = year + 1, month - 12 end
  return string.format('%04d-%02d', era * 400 + year, month)
end

-- The slot decides first: what is running or stored is answered whatever the account holds.
if fingerprint ~= '' then
  local held = redis.call('HMGET', slot, 'state', 'token', 'lease_until_ms', 'fingerprint', 'result')
  local state = held[1]
  if state == 'running' and tonumber(held[3]) <= now_ms then
    redis.call('HSET', slot, 'state', 'burned', 'token', '')
    return { 'burned' }
  end
  if state == 'running' and held[2] == token then return { 'begun' } end
  if state == 'stored' then return { 'stored', held[4], held[5] } end
  if state then return { state } end
end

if redis.call('EXISTS', void) == 1 then return { 'refused', 'voided' } end

local reserves = ARGV[5] == '1'
local record = reserves and redis.call('HGET', reservations, token)
if record then
  if claim == 0 then
    reserves = false
  else
    local lease_until_ms = tonumber(redis.call('ZSCORE', leases, token) or now_ms)
    local by, taken = string.match(record, '^(%d+) (.*)$')
    if lease_until_ms <= now_ms then
      expire(token, lease_until_ms)
    elseif tonumber(by) > claim then
      return { 'refused', 'voided' }
    else
      redis.call('HSET', reservations, token, digits(claim) .. ' ' .. taken)
      redis.call('ZADD', leases, digits(math.max(lease_until_ms, now_ms + ARGV[9])), token)
      reserves = false
    end
  end
end
if reserves and claim > 0 then
  reserves = tonumber(redis.call('ZSCORE', charged, token) or 0) <= now_ms
end

if reserves then
  local due = redis.call('ZRANGEBYSCORE', leases, '-inf', digits(now_ms), 'WITHSCORES', 'LIMIT', 0, SWEPT_AT_ONCE)
  for i = 1, #due, 2 do expire(due[i], tonumber(due[i + 1])) end

  local grant_id = ARGV[12]
  if grant_id ~= '' and redis.call('HSETNX', grants, grant_id, ARGV[13] .. ' ' .. digits(now_ms)) == 1 then
    redis.call('HINCRBY', account, 'credits', ARGV[13])
  end

  local purse = 'none'
  if platform > 0 then
    local trial = tonumber(ARGV[14])
    local tried = trial and now_ms < tonumber(ARGV[15])
    if tried and trial - amount(account, 'trial_spent') >= platform then
      purse = 'trial'
    elseif amount(account, 'credits') >= platform then
      purse = 'credits'
    else
      return { 'refused', trial and redis.call('HLEN', grants) == 0 and 'trial' or 'credits' }
    end
  end

  local month = month_of(now_ms)
  local is_new_month = redis.call('HGET', spent, 'month') ~= month
  local function is_over(budget, field)
    local before = is_new_month and 0 or amount(spent, field)
    return budget and before + spend > budget
  end
  if is_over(tonumber(ARGV[10]), 'key:' .. key_id) then return { 'refused', 'key_budget' } end
  if is_over(tonumber(ARGV[11]), 'total') then return { 'refused', 'workspace_budget' } end
  if end_user_account ~= '' then
    local counted_in, micros = string.match(redis.call('GET', end_user) or '', '^(%S+) (%d+)$')
    local after = (counted_in == month and tonumber(micros) or 0) + spend
    if after > tonumber(ARGV[18]) then return { 'refused', 'end_user_budget' } end
    redis.call('SET', end_user, month .. ' ' .. digits(after), 'PX', SPENT_TTL_MS)
  end

  if purse == 'trial' then add(account, 'trial_spent', platform) end
  if purse == 'credits' then add(account, 'credits', -platform) end
  add(account, 'reserved', platform)
  if is_new_month then
    redis.call('DEL', spent)
    redis.call('HSET', spent, 'month', month)
  end
  add(spent, 'total', spend)
  add(spent, 'key:' .. key_id, spend)
  redis.call('PEXPIRE', spent, SPENT_TTL_MS)
  local reserved = { digits(claim), purse, digits(platform), digits(spend), month, key_id }
  if end_user_account ~= '' then reserved[7] = end_user_account end
  redis.call('HSET', reservations, token, table.concat(reserved, ' '))
  redis.call('ZADD', leases, digits(now_ms + ARGV[9]), token)
end

if fingerprint ~= '' then
  local lease_until_ms = now_ms + ARGV[3]
  redis.call('HSET', slot, 'state', 'running', 'token', token, 'fingerprint', fingerprint,
    'lease_until_ms', digits(lease_until_ms))
  redis.call('PEXPIREAT', slot, digits(lease_until_ms + ARGV[4]))
end
return { 'begun' }
