"""The GKE target: pods of a JobSet, on GKE or on any cluster that a context of a kubeconfig names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from runtime.contract.names import SUITE_FILE
from runtime.contract.pod import RENEWAL_FILE
from tasks.cloud.container import Container
from tasks.cloud.container_model import GOOD, Cluster
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import Object
from tasks.cloud.kubernetes_places import ClusterGone, access_to, place_of, place_of_cluster, signed
from tasks.cloud.labels import read_labels
from tasks.cloud.registry import Registry, pinned
from tasks.cloud.storage import Folder, open_folder
from tasks.cloud.timing import Timing
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.spec import RunSpec
from tasks.leases.holding import OVERDUE_S, Holding
from tasks.leases.jobsets import JOBSET, end
from tasks.leases.opening import the_ledger
from tasks.leases.shares import shared_by
from tasks.targets import gke_cluster, gke_plan, gke_preflight, gke_smoke, kube_own_queue
from tasks.targets.beside import beside
from tasks.targets.cluster_sharing import is_half_made
from tasks.targets.gke_fits import grows, never
from tasks.targets.gke_follow import Following, Limits
from tasks.targets.gke_send import send_code, send_job
from tasks.targets.gke_submit import name_of_attempt, new_token, submission, submit
from tasks.targets.gke_waiting import ALONE_S
from tasks.targets.kube_check import checked
from tasks.targets.kube_jobset import jobset
from tasks.targets.kube_submission import Submission
from tasks.targets.kube_template import address_of
from tasks.targets.pathways_match import check_image
from tasks.targets.types import (
    Bundle,
    Event,
    Image,
    Plan,
    Uploaded,
    Worker,
    Workers,
    Workload,
    WorkloadRef,
)

_LOOKED_OVER = Timing(total_s=10.0)
"""Short: what does not answer before anything is made is told, not waited for."""


class GkeTarget:
    """Pods of a JobSet behind the Protocol. What they need they fetch from the run's folder, and leave there."""

    def __init__(
        self,
        config: GkeTargetConfig,
        *,
        say: Callable[[str], None] = lambda line: None,
        lease_s: float = OVERDUE_S,
        poll_s: float = 5.0,
    ) -> None:
        """`poll_s`: seconds between looks at a cluster that is being made."""
        self._config = gke_cluster.placed(config)
        self._say = say
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._stopped: set[str] = set()
        self._there: Cluster | None = None
        """The cluster of GKE, as it was when it was looked at last."""
        self._among_runs = False
        """Whether what the pods run on was made for runs: then nobody but these has its quota."""

    def plan(self, spec: RunSpec) -> Plan:
        """See Target."""
        return gke_plan.plan(spec, self._config, self.place())

    def place(self) -> str:
        """Returns where names of JobSets count: a context of a kubeconfig, or a cluster of GKE."""
        cluster = self._config.cluster
        if cluster is None:
            assert self._config.context is not None
            return place_of(self._config.context, self._config.kubeconfig)
        there = self._there
        location = there.location if there is not None else cluster.location
        return place_of_cluster(cluster.project or "", location or "", cluster.name)

    def preflight(self, plan: Plan) -> list[Problem]:
        """See Target. Asks the cluster about all that a workload names, what we may, and what it says to it."""
        return self.looked_over(next(ref.name for ref in plan.resources if ref.kind == JOBSET))

    def looked_over(self, name: str) -> list[Problem]:
        """Returns what would stop a workload of this name; changes nothing."""
        if self._config.cluster is None:
            return self._looked_into(name)
        container = Container(self._config.cluster.project or "", timing=_LOOKED_OVER)
        there, problems = gke_cluster.look(self._config, container)
        if any(one.severity == "error" for one in problems):
            return problems
        planned = jobset(self._config, self._submission(name))
        fits = gke_cluster.never_fits_what_is_made(self._config, there, planned, container)
        made = there is None or is_half_made(there, the_ledger())
        if there is None or made or there.state not in GOOD:  # what it will be like is not known yet
            lacks = gke_cluster.lacking_once_made(self._config) if made else []
            return [*checked(planned), *lacks, *problems, *fits]
        self._there = there
        problems += fits
        try:
            apart = gke_cluster.adds_apart(self._config, there, lambda: self._cluster(_LOOKED_OVER))
        except (BadInput, InfrastructureError):  # it does not answer, which is told below
            apart = False
        return [*problems, *self._looked_into(name, apart=apart)]

    def _looked_into(self, name: str, *, apart: bool = False) -> list[Problem]:
        """Returns what a cluster says. `apart`: the queue that the target names is not the one that it will wait in."""
        config = self._config.model_copy(update={"queue": None}) if apart else self._config
        planned = self._submission(name)
        connect = lambda: self._cluster(_LOOKED_OVER)  # noqa: E731
        found = gke_preflight.preflight(connect, config, planned, self._never_fits)
        if apart and not any(one.severity == "error" for one in found):
            found += gke_preflight.queueless(self._cluster(_LOOKED_OVER))
        return found

    def _submission(self, name: str) -> Submission:
        """Returns what would be submitted, as far as it is known before."""
        stands = beside(self._config, elsewhere=False)
        workload = Workload("preflight", "gs://preflight/preflight", sidecar=stands)
        image = self._config.image or "image"
        return submission(self._config, name, image, workload, "job.json", {}, "token")

    def image(self) -> Image | None:
        """See Target. A tag is looked up: pods get its digest."""
        if self._config.build is not None:
            return None
        if self._config.image is None:
            raise BadInput(
                "the target names no image, nor a repository to build one into",
                fix="write build: {repository: HOST/PATH} into the target file, or image: and one that is there",
            )
        reference = pinned(self._config.image).pinned()
        if self._config.pathways is not None:
            with Registry() as registry:
                check_image(self._config.pathways, reference, self._config.image, registry, self._say)
        return Image("container", reference, "python", {"image": self._config.image}, {}, True)

    def interpreter(self) -> None:
        """See Target. It is the image's."""

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """See Target. A cluster that is there is used as it is, one that is missing made; pods come later."""
        if self._config.cluster is not None:
            self._there = gke_cluster.get(
                self._config, lease, self._say, self._poll_s, ready=self._ready, apart=self._adds_apart
            )
            self._config = gke_cluster.led_to_its_queue(self._config, lease, self._cluster)
            self._among_runs = bool(shared_by(lease.lease))
            self._say(f"cluster {self._there.name} in {self._there.location} is {self._there.state}")
        lease.live()
        name = name_of_attempt(self._config, lease.lease.lease_id, 1)
        per_slice = plan.workers // self._config.slices or 1
        per_host = self._config.containers_per_host
        places = [(index // per_slice, index % per_slice // per_host) for index in range(plan.workers)]
        items = [Worker(n, job, address_of(name, job, pod)) for n, (job, pod) in enumerate(places)]
        return Workers(items, items[0].address, plan.devices_per_worker, plan.platform)

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """See Target. Into the run's folder, where the suite is already, and from where pods fetch both."""
        code = send_code(open_folder(bundle.workload.output), bundle)
        return Uploaded(SUITE_FILE, code, workers, image, bundle.workload)

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """See Target. Each attempt is a JobSet of its own name; one that is there is followed as it is."""
        config, workload = self._config, uploaded.workload
        run, cluster = open_folder(workload.output), self._cluster()
        scope = signed(f"{self.place()}/{config.namespace}", cluster.access)
        if config.smoke:
            subject = gke_smoke.Subject(uploaded.image.reference, workload, config, scope)
            gke_smoke.prove(subject, cluster, lease, self._say, gke_smoke.Waits())
        disk = config.ramdisk
        local = f"{disk.directory}/{workload.run_id}" if disk is not None else None
        job = send_job(run, uploaded, attempt, lease.lease.lease_id, self._lease_s, local)
        _renew(run)
        name = name_of_attempt(config, lease.lease.lease_id, attempt)
        asked = submission(
            config, name, uploaded.image.reference, workload, job, lease.resource_labels, new_token()
        )
        made = lease.create(
            JOBSET, scope, name, lambda: submit(cluster, config, asked), dead_man=gke_plan.dead_man(config)
        )
        assert made.uid is not None
        self._say(f"JobSet {name} is submitted to {cluster.access.name}")
        return WorkloadRef("gke", scope, name, made.uid, attempt, (workload.output,))

    def renew(self, ref: WorkloadRef) -> None:
        """See Target."""
        _renew(self._run(ref))

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        """See Target. A JobSet that its cluster takes away, or starts again by itself, is over as this attempt."""
        try:
            cluster = Kubernetes(access_to(ref.scope))
        except ClusterGone:  # with all that was in it, but for what pods left in the run's folder
            cluster = None
        unsaid = "queue_s" not in self._config.limits.model_fields_set
        limits = Limits(alone_s=ALONE_S if self._among_runs and unsaid else None)
        stopping = lambda: ref.uid in self._stopped  # noqa: E731
        return Following(self._config, cluster, self._run(ref), ref, stopping, limits=limits).events(since)

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """See Target. Workers write into the run's folder."""
        return []

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """See Target. Deletes the JobSet; its pods have their own grace, and a second when `grace_s` is over."""
        self._stopped.add(ref.uid)
        try:
            access = access_to(ref.scope)
        except ClusterGone:
            return
        end(Kubernetes(access), ref.name, ref.uid, grace_s)

    def _cluster(self, timing: Timing | None = None) -> Kubernetes:
        return Kubernetes(access_to(f"{self.place()}/{self._config.namespace}"), timing=timing)

    def _adds_apart(self, there: Cluster) -> bool:
        self._there = there
        return gke_cluster.adds_apart(self._config, there, self._cluster)

    def _ready(self, there: Cluster, own: Holding | None) -> None:
        """Lets a cluster that was made take workloads. Raises InfrastructureError where it does not.

        Of others' clusters they say what is in them: all that is put there is a queue for what is added.
        """
        self._there = there
        if read_labels(there.labels) is not None:
            gke_cluster.fill(self._config, there, self._cluster(), self._say)
        elif own is not None:
            queue = kube_own_queue.make(self._cluster(), own, there, self._say)
            self._config = self._config.model_copy(update={"queue": queue})
        planned = self._submission("preflight")
        found = gke_preflight.preflight(self._cluster, self._config, planned, self._never_fits)
        wrong = [str(one) for one in found if one.severity == "error"]
        if wrong:
            raise InfrastructureError(f"cluster {there.name} is made, and cannot be used: {'; '.join(wrong)}")

    def _never_fits(self, cluster: Kubernetes, made: Object) -> Iterator[Problem]:
        """Yields why a JobSet could never run on the cluster as it is, where nothing is added to it for that."""
        there = self._there
        if there is None:
            yield from never(cluster, self._config, made)
        elif not gke_cluster.is_short(self._config, there):
            yield from never(cluster, self._config, made, grows(self._config, there))

    def _run(self, ref: WorkloadRef) -> Folder:
        return open_folder(ref.scratch[0])


def _renew(run: Folder) -> None:
    """Changes what pods look at. Its content is for people: what counts is that it is another one."""
    run.write(RENEWAL_FILE, f"{time.time():.3f}\n".encode())
