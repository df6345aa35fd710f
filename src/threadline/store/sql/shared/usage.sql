-- name: add_usage
-- Once per turn: a turn that is told of again adds nothing.
INSERT INTO usage (session_pk, turn_id, session_id, person, platform, model, at, input_tokens, output_tokens,
                   cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micros, cost_status)
VALUES (:session_pk, :turn_id, :session_id, :person, :platform, :model, :at, :input_tokens, :output_tokens,
        :cache_read_tokens, :cache_write_tokens, :reasoning_tokens, :cost_micros, :cost_status)
ON CONFLICT (session_pk, turn_id) DO NOTHING

-- name: add_to_state
UPDATE session_state SET input_tokens = input_tokens + :input_tokens, output_tokens = output_tokens + :output_tokens,
  cache_read_tokens = cache_read_tokens + :cache_read_tokens, cache_write_tokens = cache_write_tokens + :cache_write_tokens,
  reasoning_tokens = reasoning_tokens + :reasoning_tokens, cost_micros = cost_micros + :cost_micros,
  last_prompt_tokens = COALESCE(CAST(:last_prompt_tokens AS BIGINT), last_prompt_tokens), cost_status = :cost_status, updated_at = :at{listed}
WHERE session_pk = :session_pk

-- name: set_model
UPDATE sessions SET model = :model WHERE pk = :session_pk

-- name: usage_by
-- One line a group. The group is computed here, because both engines agree on whole numbers and on text.
SELECT CASE CAST(:by AS TEXT) WHEN 'session' THEN session_id WHEN 'person' THEN person WHEN 'platform' THEN platform
         WHEN 'model' THEN model ELSE CAST(at / 86400000000 AS TEXT) END AS grouped,
  COUNT(*), CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), CAST(SUM(cache_read_tokens) AS BIGINT),
  CAST(SUM(cache_write_tokens) AS BIGINT), CAST(SUM(reasoning_tokens) AS BIGINT), CAST(SUM(cost_micros) AS BIGINT)
FROM usage WHERE at >= :since AND at < :until AND (CAST(:person AS TEXT) IS NULL OR person = :person)
GROUP BY grouped ORDER BY 8 DESC, 1

-- name: forget_usage
DELETE FROM usage WHERE person = :person
